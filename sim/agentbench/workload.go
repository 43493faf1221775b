package agentbench

import (
	"fmt"
	"math/rand/v2"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Rules have more than any bench asks for, but for `spent`, which has nothing
// after its first request. All belongs to the region: no coordinator is needed.
const Rules = `
domain: bench
descriptors:
- {key: user, rate_limit: {unit: second, requests_per_unit: 1000000000, quota: {standing_share: 1}}}
- {key: address, rate_limit: {unit: second, requests_per_unit: 1000000000, quota: {standing_share: 1}}}
- {key: path, rate_limit: {unit: second, requests_per_unit: 1000000000, quota: {standing_share: 1}}}
- {key: spent, rate_limit: {unit: day, requests_per_unit: 1, quota: {standing_share: 1}}}
`

// Workload is what is asked for, drawn from a fixed seed.
type Workload struct {
	Name string `json:"name"`
	// Denied says that (nearly) all is denied.
	Denied bool `json:"-"`
	draw   func(r *rand.Rand) *rls.RateLimitRequest
}

// population is the number of keys of the workloads that have many.
const population = 10_000

// Workloads returns all of them.
func Workloads() []Workload {
	id := func(r *rand.Rand) string { return fmt.Sprint(r.IntN(population)) }
	return []Workload{
		{Name: "hot key", draw: func(*rand.Rand) *rls.RateLimitRequest { return request("user", "0") }},
		{Name: "10k keys", draw: func(r *rand.Rand) *rls.RateLimitRequest { return request("user", id(r)) }},
		{Name: "zipf keys", draw: func(r *rand.Rand) *rls.RateLimitRequest {
			return request("user", fmt.Sprint(rand.NewZipf(r, 1.1, 1, population-1).Uint64()))
		}},
		{Name: "three rules", draw: func(r *rand.Rand) *rls.RateLimitRequest {
			return request("user", id(r), "address", id(r), "path", fmt.Sprint(r.IntN(20)))
		}},
		{Name: "denied key", Denied: true, draw: func(*rand.Rand) *rls.RateLimitRequest { return request("spent", "0") }},
	}
}

// request has one descriptor for each key and value.
func request(pairs ...string) *rls.RateLimitRequest {
	m := &rls.RateLimitRequest{Domain: "bench"}
	for i := 0; i < len(pairs); i += 2 {
		m.Descriptors = append(m.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}},
		})
	}
	return m
}

// requests are drawn before a measurement, so that it does not measure the drawing.
func (w Workload) requests() []*rls.RateLimitRequest {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]*rls.RateLimitRequest, 1<<14)
	for i := range out {
		out[i] = w.draw(r)
	}
	return out
}
