// Package caller turns an incoming call into a question to the rate limit: whose call
// it is, and what it costs. It is what the middleware for net/http (httplimit) and the
// interceptors for gRPC (grpclimit) share.
//
//	call ──► keys ──► descriptors ──► Decide ──► Answer
//	           │                         │
//	           └─ missing: Refuse,       └─ nothing decided: Deny, Admit
//	              Skip or Share
//
// Whoever is limited chooses what a call says. So what is missing has a policy that
// somebody has chosen (case K90), a forwarded address counts only as far as trusted
// proxies vouch for it (K88), an IPv6 network is one caller (K89), and a secret leaves
// the process only as a digest (K97).
package caller
