// Package demo is what `make demo` shows: one limit, three regions, demand that
// moves between them and exceeds the limit, and on the way a flash crowd, a
// killed leader and a region that is cut off and comes back.
//
//	script ──► live.World ──► tallies ──► frame ──► view (terminal) or lines
//	                                        └─────► Summary
//
// The figures come from the World's auditor, which sees admitted requests only;
// what the coordinators say is shown beside them and counts for nothing.
package demo
