// Package scenario reads simulated runs that people write: a limit, regions,
// demand over time, and what goes wrong. Parse turns the text into a sim.Plan;
// Format writes any plan as such a text, so that what a seed has drawn can be
// kept, changed and run again.
//
// A scenario is one YAML document. Times have their unit (250ms, 1m30s) and count
// from the moment when the load begins. Unknown keys are errors, and all problems
// of a file are named at once, each with its place.
//
//	name: one region is cut off    # default: the name of the file
//	about: what it shows           # printed above the result
//	seed: 7                        # default 1; --seed says otherwise
//
//	limit:                         # one limit of one key, in the words of the rule document
//	  rate: 1000                   # tokens each unit
//	  unit: second                 # default second; also minute, hour, day, …
//	  burst: 1000                  # default: rate
//	  standing_share: 0.1          # and unit_multiplier, weights, on_disconnect,
//	                               # on_store_failure, cold_start_wait, max_debt, algorithm; of
//	                               # fixed windows also align, time_zone
//
// or, for anything else, a whole rule document and the keys that are asked for:
//
//	rules: |
//	  domain: api
//	  descriptors: [...]
//	keys:                          # each is audited
//	  - {domain: api, descriptor: {user: ann}}             # its name is user=ann
//	  - {descriptor: {user: u, path: /x}, count: 1000}     # /x-1 … /x-1000, by Zipf's law
//	  - {descriptor: {user: bob}, name: bob}
//	  - {descriptor: {user: eve}, override: 20/minute}     # its requests bring that limit
//
// What there is:
//
//	regions: [eu, us]              # or {name: eu, weight: 2, agents: 3}; default 1 and 1
//	network: {delay: 75ms, jitter: 0ms, loss: 0, duplicate: 0, late: 0, held: 0}   # one way; default 0
//	log: {commit: 40ms, jitter: 0ms, lost: 0, unknown: 0}        # default 0
//	clocks: {drift_ppm: 4900}      # clocks are fast or slow by so much at most; default 0
//	allowances: true               # agents draw ahead; default false. Real agents always do
//	settle: 5s                     # how long the cluster runs before the load; default 5s
//	duration: 90s                  # of the load
//
// Demand is a list of loads, each an open stream of requests that does not wait
// for answers. A load is for one region or several, each of which gets all of it;
// without region it is for all, without key for each key. Exactly one of steady,
// step, flash, follow_the_sun and points says how many requests a second there
// are; a number may be for another unit (12/minute).
//
//	load:
//	  - {region: eu, steady: 800}
//	  - {region: [us, ap], step: {from: 100, to: 900, at: 20s}}
//	  - {region: us, flash: {base: 200, peak: 2000, at: 20s, for: 15s}, every: 60s}
//	  - {follow_the_sun: {night: 50, noon: 1150, day: 20s}}      # region by region
//	  - {points: [[0s, 2], [5s, 2], [5s, 50], [6s, 50]], every: 6s}
//	  - {steady: 3, key: bob, cost: [1, 100]}                    # cost: default 1
//	  - {steady: 3, cost: 10, afterwards: refund}                # some of each is given back; or settle
//
// Points are joined by straight lines; two at the same time are a step. every
// repeats flash and points. What is admitted of a load with afterwards is given back a second
// later, on average: from nothing to all of it. Or its cost is taken for an estimate and
// settled then: it was from nothing to twice as much.
//
// What goes wrong, at fixed times or at random (a time is the mean distance
// between two of a kind, a number a probability):
//
//	events:
//	  - {at: 20s, do: cut, region: eu}     # cut, mend: from the coordinator
//	  - {at: 30s, do: reset, region: eu}   # the store restarts, empty
//	  - {at: 40s, do: outage, region: eu}  # the store does not answer; back ends it
//	  - {at: 50s, do: kill, region: eu}    # an agent dies and starts again
//	  - {at: 55s, do: elect}               # the leader is deposed
//	  - {at: 58s, do: edit}                # of edits, or another weight for a region
//	faults: {elections: 30s, loyal: 0.5, partitions: 15s, resets: 20s, outages: 10s, frozen: 0.5,
//	         lost_replies: 0.1, kills: 10s, steps: 15s, edits: 5s, nonsense: 0.5}
//	edits:                         # what an edit changes of limit, never rate, burst or max_debt;
//	  - {standing_share: 0.5}      # with rules, whole documents
//
// Finally everything may heal, to see whether every region gets its fair share
// again, within three TTLs:
//
//	heal: 60s                      # no fault and no event after it
//	final: [...]                   # the load from then on, its times counted from heal;
//	                               # default: the demand of that moment, steady
//
// What only real processes have is said apart. `quorate-sim live` does all that a
// scenario says; a run in virtual time leaves this out:
//
//	live:
//	  coordinators: 5              # 3 or 5; default 3
//	  sentinel: true               # a primary, a replica and three Sentinels per region
//	  events:                      # each ends by itself, after `for`
//	    - {at: 5s, do: freeze, on: leader, for: 3s}     # SIGSTOP, SIGCONT; on: leader, follower, n1, eu-1
//	    - {at: 5s, do: kill, on: eu-1, for: 1s}         # kill -9, started again after 1s
//	    - {at: 5s, do: isolate, on: n2, for: 4s}        # a coordinator, from everybody
//	    - {at: 5s, do: blackhole, region: eu, way: in, for: 4s}  # or out, as the region sees it
//	    - {at: 5s, do: disconnect, region: eu}          # connections break
//	    - {at: 5s, do: throttle, region: eu, bytes: 2000, for: 4s}  # a second
//	    - {at: 5s, do: slow, region: eu, delay: 400ms, for: 4s}     # one way
//	    - {at: 5s, do: failover, region: eu}            # the primary dies
//	    - {at: 5s, do: disk_full, on: leader, for: 5s}  # of a coordinator
//	    - {at: 5s, do: set_clock, on: eu-1, by: -30s}   # the wall clock of an agent
//	    - {at: 5s, do: suspend, on: eu-1, by: 30s}      # its machine, as its clocks show it
package scenario
