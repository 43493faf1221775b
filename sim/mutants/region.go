package mutants

// regionMutants break how a region keeps its buckets.
var regionMutants = []Mutant{
	{
		Name:   "adopted-by-the-first",
		Breaks: "Rules are taken as adopted by a region when the first of its agents decides by them.",
		Edits: []Edit{{
			File: "coordinator/planner/region.go",
			Old:  "slices.MinFunc(r.agents",
			New:  "slices.MaxFunc(r.agents",
		}},
	}, {
		Name:   "late-apply",
		Breaks: "An assignment is applied after the deadline, when its credit counts as spent.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "	case s.high >= s.region.Deadline:\n",
			New:  "	case false:\n",
		}},
	}, {
		Name:   "apply-twice",
		Breaks: "An assignment that arrives again brings its credit again.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "	case same && a.Epoch == rec.Epoch && rec.Epoch > 0:\n",
			New:  "	case false:\n",
		}},
	}, {
		Name:   "apply-out-of-order",
		Breaks: "An older assignment that arrives late replaces a newer one.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "a.Epoch == 0 || same && a.Epoch < rec.Epoch",
			New:  "a.Epoch == 0",
		}},
	}, {
		Name:   "missing-is-full",
		Breaks: "A bucket without a record starts full, also when the record was lost.",
		Edits: []Edit{{
			File: "regional/bucket/balance.go",
			Old:  "		b.Level, _ = st.Refill(st.Base, time-st.Began())\n",
			New:  "		b.Level = st.Burst\n",
		}},
	}, {
		Name:   "every-life-is-the-first",
		Breaks: "An agent marks each incarnation of the store as the region's first, whose buckets start full.",
		Edits: []Edit{{
			File: "regional/lease/keeper.go",
			Old:  "First: r.First,",
			New:  "First: true,",
		}},
	}, {
		Name:   "records-of-another-life",
		Breaks: "The buckets of an older incarnation still count, though what was spent since they were written is lost.",
		Edits: []Edit{{
			File: "regional/bucket/store.go",
			Old:  "if !ok || r.Incarnation != s.region.Incarnation {",
			New:  "if !ok {",
		}},
		Test: Test{"regional/bucket", "TestARecordOfAnotherIncarnationCountsForNothing"},
	}, {
		Name:   "session-of-another-life",
		Breaks: "A store that was rolled back goes on with the leases that it finds.",
		Edits: []Edit{{
			File: "regional/bucket/region.go",
			Old:  "	r.Incarnation, r.Session, r.Deadline = id, 0, 0\n",
			New:  "	r.Incarnation = id\n",
		}, {
			File: "regional/bucket/store.go",
			Old:  "if !ok || r.Incarnation != s.region.Incarnation {",
			New:  "if !ok {",
		}},
	}, {
		Name:   "configuration-of-another-life",
		Breaks: "A configuration that was pushed to a life of the store that is over is adopted by the next one, though nobody counts it any more.",
		Edits: []Edit{{
			File: "regional/bucket/region.go",
			Old:  "	if s.region.Incarnation != incarnation {\n		return fmt.Errorf(\"adopt configuration",
			New:  "	if false {\n		return fmt.Errorf(\"adopt configuration",
		}},
		Test: Test{"regional/lease", "TestScenarios"},
	}, {
		Name:   "outage-starts-full",
		Breaks: "When the store goes away the agent's own buckets start full, beside the ones in the store.",
		Edits: []Edit{{
			File: "regional/enforce/ladder.go",
			Old:  "share.Refill(0, now-max(quota.MicrosOf(l.since), back))",
			New:  "share.Refill(share.Burst, now-max(quota.MicrosOf(l.since), back))",
		}},
	}, {
		Name:   "outage-is-not-charged",
		Breaks: "What was admitted without the store is never charged to it.",
		Edits: []Edit{{
			File: "regional/enforce/ladder.go",
			Old:  "err := e.cfg.Store.Charge(ctx, s.Incarnation, charges)",
			New:  "var err error",
		}},
	},
}
