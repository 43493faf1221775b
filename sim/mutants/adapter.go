package mutants

// adapterMutants break adapters, which the simulator replaces: their own tests
// must find them.
var adapterMutants = []Mutant{
	{
		Name:   "no-leadership-check-with-raft",
		Breaks: "The same as no-leadership-check, in the coordinator itself: an isolated leader goes on renewing.",
		Edits: []Edit{{
			File: "coordinator/term.go",
			Old:  "	check, err := t.node.raft.Verify(ctx)\n",
			New:  "	if ctx.Err() == nil {\n		return t.now(), nil\n	}\n	check, err := t.node.raft.Verify(ctx)\n",
		}},
		Test: Test{"coordinator", "TestK79IsolatedLeaderRenewsNothing"},
	}, {
		Name:   "incarnation-by-run-id",
		Breaks: "Only the run_id says whether a store lost data, so a fail-over and back goes unnoticed.",
		Edits: []Edit{{
			File: "regional/redisbucket/scripts/incarnate.lua",
			Old:  "if s[1] and s[2] == ARGV[2] and s[3] == ARGV[3] then",
			New:  "if s[1] and s[2] == ARGV[2] then",
		}},
		Test: Test{"regional/redisbucket", "TestLostContinuityBeginsANewIncarnation"},
	}, {
		Name:   "blind-retry",
		Breaks: "A script is sent again when its answer is lost, and so executed twice.",
		Edits: []Edit{{
			File: "regional/redisbucket/call.go",
			Old:  "func (ints) NoRetry() bool { return true }",
			New:  "func (ints) NoRetry() bool { return false }",
		}, {
			File: "regional/redisbucket/client.go",
			Old:  "MaxRetries:               -1, DialerRetries",
			New:  "DialerRetries",
		}},
		Test: Test{"regional/redisbucket", "TestK58ALostReplyMeansExactlyOneExecution"},
	},
}
