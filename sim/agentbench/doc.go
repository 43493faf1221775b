// Package agentbench measures what a decision of an agent costs, beside other ways
// to make one: an RLS handler that decides nothing (what gRPC alone costs), an agent that
// makes one script call for each request, and an agent without allowances. Another RLS
// server can be measured with them.
//
//	load (this process) ──gRPC over loopback──► server (a process) ──► redis-server (a process)
//
// The processes are apart, so that the kernel says what each of them costs: CPU
// time of server and Redis is read from /proc before and after each measurement.
// All systems are measured in turn in each round, and the figures are medians over
// the rounds: on a shared machine only their ratios mean something.
package agentbench
