// Package httpapi is the HTTP side of an agent: the front end for clients and
// proxies that have no Envoy filter, and the admin port.
//
//	POST /json        Envoy's RateLimitRequest as JSON; 200, or 429 when over
//	any  /v1/check    ?domain=api&user=42&path=/login; 200, or 429 with a problem body
//	POST /v1/settle   ?domain=api&user=42&estimate=10&actual=7; 200 says what was charged or given back
//	GET  /healthz     the process is alive
//	GET  /readyz      the agent can decide; the body says what is missing
//
// /v1/check suits nginx auth_request, Traefik and Caddy forward_auth: it answers
// any method, reads no body and says everything in status and header fields. nginx
// makes a 500 of a 429; deployments/nginx/nginx.conf makes it a 429 again.
//
// Status codes are those of HTTP: 400 is the caller's mistake, 5xx is ours.
// (envoyproxy/ratelimit answers 400 for every error, which clients take for
// their own mistake; this differs on purpose.) This package is the only place
// where errors of an agent's ports become HTTP status codes.
package httpapi
