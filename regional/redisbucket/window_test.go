package redisbucket

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
	"github.com/quorate/quorate/regional/enforce"
)

// windows are the keys of the random histories that are sliding windows.
var windows = map[quota.Key]bucket.Window{"log": bucket.LogWindow, "counter": bucket.CounterWindow}

// withShortChunks lets a log begin a chunk after some six admissions.
func withShortChunks(source string) string {
	const long, short = "local CHUNK = 768", "local CHUNK = 96"
	if !strings.Contains(windowSource, long) {
		panic("scripts/window.lua does not say " + long)
	}
	return strings.Replace(source, long, short, 1)
}

// TestLongWindowsEqualReference runs histories in which sliding windows fill, empty
// and move on: many small requests in a time that is not much longer than a window, some
// of which give back or settle.
func TestLongWindowsEqualReference(t *testing.T) {
	histories(t, func(w *twins) {
		w.length = quota.Micros(rapid.IntRange(1, 1000).Draw(w.t, "window"))
		share := func(key quota.Key) bucket.Standing {
			return bucket.Standing{Capacity: quota.Capacity{Rate: quota.Rate{Per: w.length}, Burst: 30}, Base: 10, Window: windows[key], Since: 1 << 40}
		}
		deadline := w.now
		for step := range rapid.IntRange(1, 120).Draw(w.t, "steps") {
			w.tick(w.length * quota.Micros(rapid.IntRange(-3, 20).Draw(w.t, "time")) / 40)
			w.same("state", w.ref.State(w.now), state(w.t, w.real), nil, nil)
			key := rapid.SampledFrom([]quota.Key{"log", "counter"}).Draw(w.t, "key")
			switch rapid.IntRange(0, 20).Draw(w.t, "op") {
			case 0:
				deadline = max(deadline, w.now) + w.length
				w.same("renew", nil, nil, w.ref.Renew(w.now, w.inc, 1, deadline), w.real.Renew(w.ctx, w.inc, 1, deadline))
			case 1:
				w.applied(w.inc, bucket.ApplyAsk{
					Assignment: quota.Assignment{
						Key: key, Session: 1, Epoch: quota.Epoch(step + 1), Release: rapid.Bool().Draw(w.t, "release"),
						Lease: quota.Capacity{Rate: quota.Rate{Per: w.length}, Burst: quota.Tokens(rapid.IntRange(0, 60).Draw(w.t, "lease"))},
					}, Standing: share(key),
				})
			case 2:
				charges := []bucket.Charge{{Key: key, Tokens: 7, Standing: share(key)}}
				w.same("charge", nil, nil, w.ref.Charge(w.now, w.inc, charges), w.real.Charge(w.ctx, w.inc, charges))
			default:
				a := bucket.Ask{Key: key, Standing: share(key), Cost: quota.Tokens(rapid.IntRange(0, 4).Draw(w.t, "cost"))}
				switch rapid.IntRange(0, 9).Draw(w.t, "kind") {
				case 0:
					a.Cost = -quota.Tokens(rapid.IntRange(1, 25).Draw(w.t, "refund"))
				case 1:
					a.Cost, a.Settle = quota.Tokens(rapid.IntRange(1, 40).Draw(w.t, "settled")), true
				}
				t := enforce.Take{Incarnation: w.inc, Asks: []bucket.Ask{a}}
				have, err := w.real.Take(w.ctx, t)
				want := enforce.TakeResult{Now: w.ref.State(w.now).Now}
				want.Admitted, want.Verdicts = w.ref.Take(w.now, t.Asks)
				w.same("take", want, have, nil, err)
			}
			w.compare()
		}
	})
}

// comparePlaces compares what is stored of a sliding window.
func (w *twins) comparePlaces(key quota.Key) {
	fields, err := w.real.client.Load().HGetAll(w.ctx, w.real.bucketKey(key)).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	var have bucket.Places
	n := numbers(fields["win"])
	if windows[key] == bucket.CounterWindow {
		have.Count = bucket.Count{Start: quota.Micros(n[0]), Prev: quota.Tokens(n[1]), Cur: quota.Tokens(n[2])}
	} else {
		for chunk := n[0]; chunk <= n[2]; chunk++ {
			name := "w" + strconv.FormatInt(chunk, 10)
			text := fields[name]
			delete(fields, name)
			head, rest, _ := strings.Cut(text, ":")
			if chunk == n[0] && n[1] > 1 {
				rest = text[n[1]-1:]
			}
			text = rest
			sum := quota.Tokens(0)
			for _, entry := range strings.Split(strings.TrimSuffix(text, ";"), ";") {
				if e := numbers(entry); len(e) == 2 {
					have.Log = append(have.Log, bucket.Entry{At: quota.Micros(e[0]), Cost: quota.Tokens(e[1])})
					sum += quota.Tokens(e[1])
				}
			}
			if h := numbers(head); len(h) != 2 || (chunk > n[0] || n[1] == 1) && quota.Tokens(h[0]) != sum {
				w.t.Fatalf("chunk %d of %s begins with %q, and has %v", chunk, key, head, sum)
			}
		}
		if n[6] > 0 {
			have.Log = append(have.Log, bucket.Entry{At: quota.Micros(n[4]), Cost: quota.Tokens(n[5])})
		}
	}
	want := w.ref.Places(key)
	if len(want.Log) == 0 {
		want.Log = nil
	}
	if !reflect.DeepEqual(want, have) {
		w.t.Fatalf("places of %s:\nreference %+v\nredis     %+v", key, want, have)
	}
	for name := range fields {
		if name[0] == 'w' && name != "win" {
			w.t.Fatalf("places of %s: %s is left over", key, name)
		}
	}
}

func numbers(text string) []int64 {
	var out []int64
	for _, word := range strings.Fields(text) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			panic(err)
		}
		out = append(out, n)
	}
	return out
}
