package redisbucket

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/bucket"
)

// Charges that are given back, late and in any order, never let a bucket admit more
// than its burst and what it gains, and what users give back meanwhile: admitted(W) -
// refunded(W) <= burst + rate*W for every W. The
// scripts are those of a cluster but for here.lua, on a server whose clock the test
// sets.
func TestRefundsKeepTheBound(t *testing.T) {
	ctx := context.Background()
	s, err := open(Config{URL: shared.URL(), ServerID: "refunds", Prefix: newPrefix(), Timeout: patient, DialTimeout: patient, Budget: patient}, withTestClock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := 1000 * quota.Second
	tick := func(t failing) {
		if _, err := shared.Do("HSET", "test:clock", "s", strconv.Itoa(int(now/quota.Second)), "us", strconv.Itoa(int(now%quota.Second))); err != nil {
			t.Fatal(err)
		}
	}
	tick(t)
	st := state(t, s)
	s.scripts.take = script{name: "take", source: withTestClock(preludeSource + bucketSource + windowSource + "local apart = true\n" + takeSource)}
	sum := sha1.Sum([]byte(s.scripts.take.source)) //nolint:gosec // Redis names scripts by their SHA-1.
	s.scripts.take.sha = hex.EncodeToString(sum[:])
	give := &script{name: "refund", source: withTestClock(preludeSource + bucketSource + windowSource + refundSource)}
	refunds, lost := 0, quota.Tokens(0)
	rapid.Check(t, func(t *rapid.T) {
		const burst = 10
		key := quota.Key(newPrefix())
		share := full(per(uint64(rapid.IntRange(0, 3).Draw(t, "rate")), quota.Second, burst))
		type event struct {
			at quota.Micros
			n  quota.Tokens
		}
		type charge struct {
			at     quota.Micros
			n      quota.Tokens
			before quota.Tokens
		}
		var admitted []event
		var open []charge
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			now += quota.Second / 4 * quota.Micros(rapid.IntRange(0, 8).Draw(t, "wait"))
			tick(t)
			n := rapid.Uint64Range(1, burst).Draw(t, "tokens")
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step == 4: // by a user, of anything
				a := ask(key, 0, share)
				a.Cost = -quota.Whole(n)
				take(t, s, of(st, a))
				admitted = append(admitted, event{now, a.Cost})
			case step <= 1: // 0: for good, 1: to be given back
				res := take(t, s, of(st, ask(key, n, share)))
				switch {
				case !res.Admitted:
				case step == 0:
					admitted = append(admitted, event{now, quota.Whole(n)})
				default:
					open = append(open, charge{now, quota.Whole(n), res.Verdicts[0].Level + quota.Whole(n)})
				}
			case len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				c := open[i]
				open = append(open[:i], open[i+1:]...)
				was := take(t, s, of(st, ask(key, 0, share))).Verdicts[0].Level
				argv := append([]any{st.Incarnation, st.Config, int64(c.n), int64(bucket.ModeStanding)}, standingWords(share)...)
				reply, err := runInts(ctx, s.client.Load(), give, append([]any{"eval", give.source, 2, s.stateKey, s.bucketKey(key)},
					append(argv, 0, int64(c.at), int64(c.before))...))
				if err != nil {
					t.Fatal(err)
				}
				is := take(t, s, of(st, ask(key, 0, share))).Verdicts[0].Level
				if is < was || is > was+c.n || is > quota.Whole(burst) {
					t.Fatalf("a refund of %v took the level from %v to %v, reply %v", c.n, was, is, reply)
				}
				refunds++
				lost += c.n - (is - was)
			}
		}
		for i := range admitted {
			sum := quota.Tokens(0)
			for _, e := range admitted[i:] {
				sum += e.n
				if most := quota.Whole(burst) + share.Rate.Tokens*quota.Tokens(e.at-admitted[i].at)/quota.Tokens(share.Rate.Per); sum > most {
					t.Fatalf("%v admitted within %v, at most %v may be: %+v", sum, (e.at - admitted[i].at).Duration(), most, admitted)
				}
			}
		}
	})
	t.Logf("%d refunds, %v of their tokens left out", refunds, lost)
}
