package sim

import (
	"context"
	"slices"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/regional/enforce"
)

// waiter is a request that waits for the first lease of a key. It stands for a
// goroutine that blocks in uplink's Await.
type waiter struct {
	wake func(applied bool) // nil once it was called
}

// await goes on with a request when an assignment of the key that it waits for was
// applied by this agent, or when it has waited long enough. A request dies with the
// agent's process.
func (a *agent) await(wait *enforce.Wait, done func(d enforce.Decision, ok bool)) {
	w, life := a.region.w, a.lives
	resume := func() {
		d, again, err := wait.Resume(context.Background())
		if again != nil {
			a.await(again, done)
			return
		}
		w.count("requests that waited for a first lease")
		if err == nil && !d.Over {
			w.count("first leases in time")
		}
		done(d, err == nil)
	}
	k, most, ok := wait.Next()
	if !ok {
		resume()
		return
	}
	one := &waiter{}
	one.wake = func(applied bool) {
		one.wake = nil
		switch {
		case a.lives != life:
			done(enforce.Decision{}, false)
		case applied:
			a.await(wait, done) // for the next key, if there is one
		default:
			resume()
		}
	}
	a.waiters[k] = append(a.waiters[k], one)
	w.loop.After(quota.MicrosOf(most), func() {
		if one.wake != nil {
			a.waiters[k] = slices.DeleteFunc(a.waiters[k], func(o *waiter) bool { return o == one })
			one.wake(false)
		}
	})
}

// notify wakes the requests that wait for the first lease of a key. They go on after
// what the agent is at.
func (a *agent) notify(k quota.Key) {
	waiting := a.waiters[k]
	delete(a.waiters, k)
	for _, one := range waiting {
		a.region.w.loop.After(0, func() {
			if one.wake != nil {
				one.wake(true)
			}
		})
	}
}
