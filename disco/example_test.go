package disco_test

import (
	"errors"
	"fmt"

	"github.com/npamp/disco/disco"
	"github.com/npamp/disco/record"
)

// A responder answers a query with the records that it already has.
func Example() {
	tool := record.Tool{ID: "t1", Revision: 1, Name: "git.log", ProtocolID: 1}
	rec, err := tool.Record()
	if err != nil {
		fmt.Println(err)
		return
	}
	payload, err := disco.AppendResult(nil, &disco.Result{Corr: "\x01", Records: []record.Record{rec}, Complete: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n", payload)

	result, err := disco.ParseResult(payload, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range result.Records {
		name, _ := r.Name()
		fmt.Printf("%v %v %q\n", r.ID(), r.Kind(), name)
	}
	// Output:
	// a4001901010141010281a4004274310103020104a200676769742e6c6f67010103f5
	// 7431 tool "git.log"
}

// What is refused says which rule it breaks, and what to answer.
func ExamplePayloadError() {
	_, err := disco.ParseQuery([]byte{0xa2, 0x00, 0x1a, 0x00, 0x00, 0x01, 0x00, 0x01, 0x41, 0x01}, nil)
	var e *disco.PayloadError
	if errors.As(err, &e) {
		fmt.Println(e.Rule, "at octet", e.Offset, "in", e.Path)
		fmt.Println("answer:", e.Reply(), "with", e.Code, "for", e.Corr)
	}
	// Output:
	// shortest-form at octet 2 in frame_kind
	// answer: error with MalformedPayload for 01
}
