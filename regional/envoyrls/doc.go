// Package envoyrls is the front end that Envoy speaks: the service
// envoy.service.ratelimit.v3.RateLimitService over gRPC, and the same messages
// as JSON for whoever has no gRPC client.
//
// It answers what envoyproxy/ratelimit answers: one status per descriptor in the
// order of the request, with the limit, what is left of it and the time until it
// is full. It decides nothing; the decision is a function that is passed in.
//
// Generated messages would cost more than many decisions do. So requests are read from
// the wire format, and replies written in it, in memory that is used again; JSON goes
// through the same.
//
// Invariant: a decision is an answer with code OK, also when it denies. An RPC
// error means that there is no decision: the request cannot be understood
// (code Unknown, as envoyproxy/ratelimit answers; InvalidArgument for a descriptor's own
// limit that makes no sense) or its context has ended.
package envoyrls
