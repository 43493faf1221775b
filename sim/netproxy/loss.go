package netproxy

import (
	"math/rand/v2"
	"time"
)

// Loss is what a line does to chunks beside delaying them. TCP sends again what is
// lost, so all but Break shows as delay only. The zero Loss is none.
type Loss struct {
	// Packets is the probability that a chunk is lost, each time it is sent: it
	// comes a retransmission timeout later, twice that when it is lost again, and
	// so on, as TCP has it.
	Packets float64
	// Late is the probability that a connection stands for a while, up to 20 s.
	Late float64
	// Break is the probability that a chunk is lost and its connection with it.
	Break float64
}

const (
	// retransmit is the first retransmission timeout, attempts how often a chunk is
	// lost at most: an endless row of losses would be a cut.
	retransmit = 200 * time.Millisecond
	attempts   = 6
	// latest is how much a chunk is late at most.
	latest = 20 * time.Second
)

// draw returns the delay that losses cause, and whether the connection breaks.
func (l Loss) draw(rnd *rand.Rand) (delay time.Duration, broken bool) {
	if l == (Loss{}) {
		return 0, false
	}
	// As many draws whatever is lost, so that one loss does not change the next.
	packets, late, how, breaks := rnd.Float64(), rnd.Float64(), rnd.Float64(), rnd.Float64()
	timeout := retransmit
	for range attempts {
		if packets >= l.Packets {
			break
		}
		packets /= l.Packets // below the probability it is uniform again
		delay += timeout
		timeout *= 2
	}
	if late < l.Late {
		delay += time.Duration(how * float64(latest))
	}
	return delay, breaks < l.Break
}

// timetable says when the chunks of one direction of a connection are due.
type timetable struct {
	delays, losses *rand.Rand
	busy           time.Time // until when a throttled line sends
	last           time.Time // due of the chunk before
}

// next returns when a chunk of n bytes that is sent now is due, or that it breaks
// the connection.
func (t *timetable) next(now time.Time, n int, delay Delay, loss Loss, pace int64) (due time.Time, broken bool) {
	lost, broken := loss.draw(t.losses)
	sent := now
	if pace > 0 {
		if t.busy.After(sent) {
			sent = t.busy
		}
		sent = sent.Add(time.Duration(float64(n) / float64(pace) * float64(time.Second)))
		t.busy = sent
	}
	due = sent.Add(delay.draw(t.delays) + lost)
	if due.Before(t.last) {
		due = t.last // an earlier chunk is not overtaken
	}
	t.last = due
	return due, broken
}
