package main

// A hiddenRow is a row of NPAMP-DISC that no check can show, and why.
type hiddenRow struct{ row, why string }

// hiddenRows are the rows that an outside requester or subscriber cannot see
// kept or broken.
func hiddenRows() []hiddenRow {
	const (
		gate    = "nothing on the wire says that the channel is not advertised"
		learned = "what a peer keeps of what it learned is not told to anybody"
		call    = "it takes an invocation, on another channel"
		inside  = "what a peer's user is told is not on the wire"
		paper   = "it is about documents"
	)
	return []hiddenRow{
		{"DISC-2-01", gate},
		{"DISC-2-02", gate},
		{"DISC-2-03", gate},
		{"DISC-5-05", learned},
		{"DISC-5-06", learned},
		{"DISC-5-08", learned},
		{"DISC-5-09", learned},
		{"DISC-5.1-03", inside},
		{"DISC-5.1-04", inside},
		{"DISC-5.1-05", call},
		{"DISC-5.3-03", call},
		{"DISC-5.3-04", call},
		{"DISC-5.3-05", "that nothing is fetched cannot be seen from the channel"},
		{"DISC-5.4-03", learned},
		{"DISC-5.4-04", learned},
		{"DISC-7.1-02", "that nothing is waited for cannot be seen"},
		{"DISC-7.2-09", learned},
		{"DISC-8-02", learned},
		{"DISC-8-03", learned},
		{"DISC-8-04", learned},
		{"DISC-9-02", learned},
		{"DISC-10-01", call},
		{"DISC-10-02", call},
		{"DISC-10-03", "one identity sees one set"},
		{"DISC-10-05", "one identity sees one set"},
		{"DISC-10-10", "the bounds of a requester show to whoever it asks too much of"},
		{"DISC-11-01", paper},
		{"DISC-11-02", paper},
	}
}
