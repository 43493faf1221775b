package netproxy

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestLossesAreAsFrequentAsTheyAreToBe(t *testing.T) {
	const n = 20_000
	for _, tt := range []struct {
		reason string
		loss   Loss
		// the part of chunks that are delayed, and that break their connection
		delayed, broken float64
	}{
		{"none", Loss{}, 0, 0},
		{"a tenth of the packets", Loss{Packets: 0.1}, 0.1, 0},
		{"every packet, again and again", Loss{Packets: 1}, 1, 0},
		{"a connection that stands", Loss{Late: 0.2}, 0.2, 0},
		{"connections break", Loss{Break: 0.3}, 0, 0.3},
	} {
		rnd := random()
		var delayed, broken float64
		for range n {
			d, b := tt.loss.draw(rnd)
			if d > 0 {
				delayed++
			}
			if b {
				broken++
			}
			if most := retransmit*(1<<attempts-1) + latest; d > most {
				t.Fatalf("%s: a delay of %v is above %v", tt.reason, d, most)
			}
		}
		if math.Abs(delayed/n-tt.delayed) > 0.02 || math.Abs(broken/n-tt.broken) > 0.02 {
			t.Errorf("%s: have %.3f delayed and %.3f broken, want %.3f and %.3f", tt.reason, delayed/n, broken/n, tt.delayed, tt.broken)
		}
	}
}

func TestTimetableKeepsOrderAndPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pace := rapid.Int64Range(0, 100_000).Draw(t, "pace")
		loss := Loss{Packets: rapid.Float64Range(0, 0.5).Draw(t, "packets"), Late: rapid.Float64Range(0, 0.2).Draw(t, "late")}
		delay := Delay{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
		table := timetable{delays: random(), losses: random()}
		same := timetable{delays: random(), losses: random()}
		start := time.Unix(1000, 0)
		now, last, bytes := start, start, 0
		for range 50 {
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "pause")) * time.Millisecond)
			n := rapid.IntRange(1, chunkSize).Draw(t, "bytes")
			bytes += n
			due, _ := table.next(now, n, delay, loss, pace)
			if due.Before(last) || due.Before(now.Add(delay.Min)) {
				t.Fatalf("due %v is before %v or too soon after %v", due, last, now)
			}
			if most := due.Add(-delay.Min).Sub(start).Seconds() * float64(pace); pace > 0 && float64(bytes) > most+1 {
				t.Fatalf("%d bytes have arrived, %v a second allow %.0f", bytes, pace, most)
			}
			if again, _ := same.next(now, n, delay, loss, pace); !again.Equal(due) {
				t.Fatalf("the same seed gave %v, then %v", due, again)
			}
			last = due
		}
	})
}

func TestThrottledLineIsAsSlowAsItIsToBe(t *testing.T) {
	l := open(t, Config{Seed: 8})
	c := dial(t, l)
	send(t, c, "x")
	expect(t, c, "x")
	l.Throttle(Forward, 20_000)
	start := time.Now()
	text := string(make([]byte, 4_000))
	send(t, c, text)
	expect(t, c, text)
	if took := time.Since(start); took < 195*time.Millisecond {
		t.Errorf("4000 bytes took %v at 20000 a second", took)
	}
	l.Throttle(Forward, 0)
	send(t, c, text)
	expect(t, c, text)
}

func TestLostConnectionsBreak(t *testing.T) {
	l := open(t, Config{Seed: 9})
	c := dial(t, l)
	send(t, c, "x")
	expect(t, c, "x")
	l.SetLoss(Back, Loss{Break: 1})
	send(t, c, "y") // arrives; its echo does not
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("have %d bytes, %v, want a broken connection", n, err)
	}
	l.SetLoss(Back, Loss{})
	again := dial(t, l)
	send(t, again, "z")
	expect(t, again, "z")
}

func TestConnectionsGoToTheNewTarget(t *testing.T) {
	greet := func(text string) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = listener.Close(); <-done })
		return listener.Addr().String()
	}
	one, two := greet("one"), greet("two")
	l := open(t, Config{Target: one, Seed: 10})
	expect(t, dial(t, l), "one")
	l.SetTarget(two)
	expect(t, dial(t, l), "two")
	if l.Target() != two {
		t.Errorf("have the target %s, want %s", l.Target(), two)
	}
}
