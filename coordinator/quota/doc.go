// Package quota is the vocabulary of quorate and its integer token arithmetic.
//
// It holds the words both sides of the protocol share — limits, leases,
// assignments, sessions, the sync messages — as plain values, so that the pure
// packages of the coordinator and of the regional agent can speak to each other
// without generated types. The adapters translate to and from protobuf.
//
// All arithmetic is exact integer arithmetic on micro-tokens. Every amount stays
// below 2^53 so that Redis scripts, whose numbers are doubles, compute the very
// same values. Rounding always favours the limit: a level is rounded down, the
// capacity somebody holds is rounded up.
package quota
