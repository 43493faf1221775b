// Package faults breaks the real parts, one after the other, under load: the
// coordinators and agents are processes that talk through proxies, Raft runs over
// TCP with its stores on disk, every region has a redis-server of its own. It has
// tests only; package live is the World that they run in.
//
// What every test asserts, whatever it breaks:
//
//   - the Bound, over the whole run, by an auditor that sees only requests and
//     answers: no window has more than B + R*W (check.Report.Certain is 0). Where a
//     policy of a rule gives the Bound up on purpose, the test says by how much;
//   - recovery: after the fault every region serves its part of the limit again
//     within a deadline.
//
// Package fasttime runs the same faults for longer in virtual time, and package
// protocol in random order by the thousand; here nothing is replaced.
package faults
