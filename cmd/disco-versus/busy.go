package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// busy tells how much of the machine was used by others than we and our
// processes. It reads Linux's accounts; elsewhere it tells 0.
type busy struct {
	at           time.Time
	machine, own time.Duration
	processes    map[string]*process
}

const tick = 10 * time.Millisecond // of /proc/stat

func newBusy(processes map[string]*process) *busy {
	b := &busy{at: time.Now(), processes: processes}
	b.machine, b.own = machineTime(), processTime(os.Getpid())
	return b
}

// since returns the seconds since then, and the cores that others used.
func (b *busy) since() (seconds, others float64) {
	own := processTime(os.Getpid()) - b.own
	for _, p := range b.processes {
		own += processTime(p.cmd.Process.Pid)
	}
	seconds = time.Since(b.at).Seconds()
	return seconds, max(0, (machineTime()-b.machine-own).Seconds()/seconds)
}

func machineTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, soft, steal int64
	line, _, _ := strings.Cut(string(stat), "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+steal) * tick // interrupts belong to whoever caused them
}

func processTime(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * tick
}

func cpuName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(info), "model name")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, "\t: ")
}
