package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/rpc"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// history is what the clients of a cluster did and heard, on one clock.
type history struct {
	began time.Time

	mu      sync.Mutex
	list    []porcupine.Operation
	heard   map[string]int // answers, by operation and kind
	clients int
}

func newHistory() *history { return &history{began: time.Now(), heard: map[string]int{}} }

// operator is one client: it does one thing at a time, at any node.
type operator struct {
	history *history
	id      int
	nodes   []quoratev1.AdminClient
	address []string
	next    int    // where it was sent, -1 for anywhere
	version uint64 // of the rules it last heard of
}

// operator returns a client of the Admin services at some addresses.
func (h *history) operator(t *testing.T, addresses ...string) *operator {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &operator{history: h, id: h.clients, address: addresses, next: -1}
	h.clients++
	for _, a := range addresses {
		conn, err := grpc.NewClient(a, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		o.nodes = append(o.nodes, quoratev1.NewAdminClient(conn))
	}
	return o
}

// do calls a node, and keeps the call unless it is certain that it did nothing.
func (o *operator) do(ctx context.Context, node int, c call) (answer, bool) {
	began := time.Since(o.history.began)
	a, err := o.ask(ctx, o.nodes[node], c)
	ended := time.Since(o.history.began)
	o.next = -1
	kept := true
	if err != nil {
		a, kept = o.failed(c, err)
	}
	h := o.history
	h.mu.Lock()
	defer h.mu.Unlock()
	what := a.code.String()
	switch {
	case !kept:
		what = "not done"
	case a.unknown:
		what, ended = "unknown", time.Hour
	case err == nil && a.rules > 0:
		o.version = a.rules
	}
	h.heard[fmt.Sprintf("%s %s", strings.Fields(c.String())[0], what)]++
	if kept {
		h.list = append(h.list, porcupine.Operation{ClientId: o.id, Input: c, Call: int64(began), Output: a, Return: int64(ended)})
	}
	return a, kept
}

// failed says what an error says of a call: that it was answered, that nobody
// knows, or, kept false, that nothing was done and no state was told.
func (o *operator) failed(c call, err error) (a answer, kept bool) {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if h, ok := d.(*quoratev1.LeaderHint); ok { // not the leader, or it cannot prove it
			o.next = slices.Index(o.address, h.GetAddress())
			return answer{}, false
		}
	}
	switch st.Code() {
	case codes.Aborted, codes.NotFound, codes.FailedPrecondition:
		return answer{code: st.Code()}, true
	}
	if c.op == getRules || c.op == listRegions {
		return answer{}, false
	}
	for _, certain := range []string{rpc.ErrNotReady.Error(), rpc.ErrNotApplied.Error(), "error while dialing"} {
		if strings.Contains(strings.ToLower(st.Message()), certain) {
			return answer{}, false
		}
	}
	return answer{unknown: true}, true
}

// ask makes one call.
func (o *operator) ask(ctx context.Context, at quoratev1.AdminClient, c call) (a answer, err error) {
	place := places[c.place]
	switch c.op {
	case applyRules:
		req := &quoratev1.ApplyRulesRequest{Sources: []*quoratev1.Source{{Name: "api.yaml", Text: c.document}}}
		if c.conditional {
			req.IfVersion = &c.version
		}
		r, err := at.ApplyRules(ctx, req)
		return answer{rules: r.GetRulesVersion(), config: r.GetConfigVersion(), changed: r.GetChanged()}, err
	case getRules:
		r, err := at.GetRules(ctx, &quoratev1.GetRulesRequest{})
		a = answer{rules: r.GetRulesVersion(), config: r.GetConfigVersion()}
		if len(r.GetSources()) > 0 {
			a.document = r.GetSources()[0].GetText()
		}
		return a, err
	case listRegions:
		r, err := at.ListRegions(ctx, &quoratev1.ListRegionsRequest{})
		a.config = r.GetConfigVersion()
		for i := range places {
			a.weights[i] = absent
		}
		for _, one := range r.GetRegions() {
			a.weights[slices.Index(places[:], one.GetName())] = one.GetWeight()
		}
		return a, err
	case addRegion:
		return change(at.AddRegion(ctx, &quoratev1.AddRegionRequest{Name: place, Weight: c.weight}))
	case drainRegion:
		return change(at.DrainRegion(ctx, &quoratev1.DrainRegionRequest{Name: place}))
	}
	return change(at.RemoveRegion(ctx, &quoratev1.RemoveRegionRequest{Name: place}))
}

func change(r *quoratev1.RegionChange, err error) (answer, error) {
	return answer{config: r.GetConfigVersion(), changed: r.GetChanged()}, err
}

// work does random things at random nodes until ctx ends. Some calls are given up
// at once, while they are being committed.
func (o *operator) work(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		node, patience := random.IntN(len(o.nodes)), time.Second
		if o.next >= 0 {
			node = o.next
		}
		if random.IntN(6) == 0 {
			patience = time.Duration(random.IntN(8)+1) * time.Millisecond
		}
		c := call{op: operation(random.IntN(int(operations)))}
		switch c.op {
		case applyRules:
			c.document = domain(string(rune('a' + random.IntN(5))))
			if c.conditional = random.IntN(2) == 0; c.conditional {
				c.version = o.version
			}
		case addRegion, drainRegion, removeRegion:
			c.place = random.IntN(len(places))
			if c.op == addRegion {
				c.weight = int64(random.IntN(4))
			}
		}
		one, cancel := context.WithTimeout(ctx, patience)
		o.do(one, node, c)
		cancel()
		pause(ctx, time.Duration(random.IntN(20))*time.Millisecond)
	}
}

// until does a call until it is answered, at whoever leads.
func (o *operator) until(t *testing.T, c call) (a answer) {
	t.Helper()
	eventually(t, c.String()+" is answered", func() (ok bool) {
		for node := range o.nodes {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			a, ok = o.do(ctx, node, c)
			cancel()
			if ok && !a.unknown {
				return true
			}
		}
		return false
	})
	return a
}

// look returns the present state, once no change is under way any more.
func (o *operator) look(t *testing.T) registry {
	t.Helper()
	rules, table := o.until(t, call{op: getRules}), o.until(t, call{op: listRegions})
	for rules.config != table.config {
		rules, table = o.until(t, call{op: getRules}), o.until(t, call{op: listRegions})
	}
	return registry{rules: rules.rules, config: rules.config, document: rules.document, weights: table.weights}
}

// check fails the test unless one server could have answered all that.
func (h *history) check(t *testing.T, first registry) {
	t.Helper()
	model := modelFrom(first)
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(model, h.list, 10*time.Second)
	t.Logf("%d calls of %d clients checked in %v: %v", len(h.list), h.clients, time.Since(began).Round(time.Millisecond), h.heard)
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		// Each call of unknown outcome doubles the orders to try: a machine that is
		// busy leaves too many of them. Nothing wrong was found as far as it got.
		t.Log("not decided: too many calls without an outcome")
		return
	}
	path := t.ArtifactDir() + "/history.html"
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		t.Error(err)
	}
	t.Errorf("the history is %v, want %v; it is drawn in %s (go test -artifacts keeps it)", result, porcupine.Ok, path)
}
