package fasttime

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Twenty minutes of everything at once, chosen at random, and then liveness: what
// is healed serves again.
func TestRandomFaults(t *testing.T) {
	length := 20 * time.Minute
	if testing.Short() || raceEnabled {
		length = 5 * time.Minute
	}
	run(t, document(100, "standing"), func(w *world) {
		w.loads()
		random := rand.New(rand.NewPCG(3, 4))
		seconds := func(most int) time.Duration {
			return time.Duration(random.IntN(most*1000)+1) * time.Millisecond
		}
		began, faults := time.Now(), map[string]int{}
		for time.Since(began) < length {
			time.Sleep(seconds(8))
			node, r := w.nodes[random.IntN(3)], w.regions[all[random.IntN(3)]]
			var fault string
			switch random.IntN(9) {
			case 0, 1:
				fault = "node cut off"
				w.network.set(node.name, "", true)
			case 2:
				fault = "link of two nodes cut"
				w.network.set(node.name, w.nodes[random.IntN(3)].name, true)
			case 3:
				fault = "region cut off from one node"
				for _, a := range r.agents {
					w.network.set(a.name, node.name, true)
				}
			case 4:
				fault = "region cut off"
				w.cut(r.name, true)
			case 5:
				fault = "store emptied"
				r.redis.restart()
			case 6:
				fault = "store away"
				r.redis.stop()
				time.Sleep(seconds(5))
				r.redis.restore()
			case 7:
				fault = "agent killed"
				w.killAgent(r.agents[0])
				time.Sleep(seconds(15))
				w.addAgent(r.name)
			case 8:
				fault = "node killed"
				w.kill(node)
				time.Sleep(seconds(10))
				w.start(node)
			}
			faults[fault]++
			if random.IntN(2) == 0 {
				time.Sleep(seconds(12))
				w.network.heal()
				w.silence()
			}
		}
		t.Logf("%v", faults)
		w.network.heal()
		w.silence()
		w.within(30*time.Second, "all agents are connected", w.connected)
		time.Sleep(10 * time.Second)
		from := now()
		time.Sleep(30 * time.Second)
		w.serves("after everything is healed", from, now(), 0.9)
		w.bound(limit, 0)
		w.agree()
	})
}

// silence keeps the killed agents cut off: their processes do not exist any more.
func (w *world) silence() {
	for _, r := range w.regions {
		for _, a := range r.killed {
			w.network.set(a, "", true)
		}
	}
}
