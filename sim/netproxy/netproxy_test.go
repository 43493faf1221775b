package netproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo serves connections that send back what they read until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

func open(t *testing.T, cfg Config) *Link {
	t.Helper()
	if cfg.Target == "" {
		cfg.Target = echo(t)
	}
	l, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	// A test that hangs is one that fails, with this as its reason.
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	have := make([]byte, len(want))
	if _, err := io.ReadFull(c, have); err != nil || string(have) != want {
		t.Fatalf("read: have %q, %v, want %q", have, err, want)
	}
}

// silent checks that nothing arrives for a while.
func silent(t *testing.T, c net.Conn, while time.Duration) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(while))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("have %d bytes, %v, want silence", n, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
}

func TestRoundTripTakesTwoDelaysPerMessage(t *testing.T) {
	l := open(t, Config{Delay: Delay{Min: 20 * time.Millisecond, Max: 40 * time.Millisecond}, Seed: 1})
	c := dial(t, l)
	for i, least := range []time.Duration{60 * time.Millisecond, 40 * time.Millisecond, 40 * time.Millisecond} {
		start := time.Now()
		send(t, c, "ping")
		expect(t, c, "ping")
		// The first message waits for the dial as well; that one may have been
		// under way for a moment already.
		if took := time.Since(start); took < least-5*time.Millisecond {
			t.Errorf("round trip %d took %v, want at least %v", i, took, least)
		}
	}
}

func TestDelayChangesOverAnOpenConnection(t *testing.T) {
	l := open(t, Config{})
	c := dial(t, l)
	for _, d := range []time.Duration{0, 50 * time.Millisecond, 0} {
		l.SetDelay(Delay{Min: d, Max: d})
		start := time.Now()
		send(t, c, "ping")
		expect(t, c, "ping")
		if took := time.Since(start); took < 2*d {
			t.Errorf("round trip took %v, want at least %v", took, 2*d)
		}
	}
}

func TestOrderIsKeptUnderJitter(t *testing.T) {
	l := open(t, Config{Delay: Delay{Max: 5 * time.Millisecond}, Seed: 2, Buffer: 64 << 10})
	c := dial(t, l)
	data := make([]byte, 3<<20) // many times the buffer
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(50_000))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			rest = rest[n:]
		}
		_ = c.(*net.TCPConn).CloseWrite()
	})
	have, err := io.ReadAll(c)
	writer.Wait()
	if err != nil || !bytes.Equal(have, data) {
		t.Fatalf("have %d bytes, %v, want the %d that were sent, then the end", len(have), err, len(data))
	}
}

func TestCutHoldsAndHealDelivers(t *testing.T) {
	for _, tt := range []struct {
		reason string
		cut    func(*Link)
	}{
		{"both ways", (*Link).Cut},
		{"requests do not arrive", func(l *Link) { l.Blackhole(Forward) }},
		{"answers do not arrive", func(l *Link) { l.Blackhole(Back) }},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			l := open(t, Config{Seed: 3})
			before := dial(t, l)
			send(t, before, "before")
			expect(t, before, "before")

			tt.cut(l)
			if !l.IsCut() {
				t.Error("the link does not know that it is cut")
			}
			send(t, before, "held")
			silent(t, before, 60*time.Millisecond)
			during := dial(t, l)
			send(t, during, "new")
			silent(t, during, 60*time.Millisecond)

			l.Heal()
			expect(t, before, "held")
			expect(t, during, "new")
			if l.IsCut() {
				t.Error("the link still believes that it is cut")
			}
		})
	}
}

func TestEndOfAConnectionIsHeldByACut(t *testing.T) {
	l := open(t, Config{Seed: 4})
	c := dial(t, l)
	send(t, c, "x")
	expect(t, c, "x")
	l.Cut()
	_ = c.(*net.TCPConn).CloseWrite()
	silent(t, c, 60*time.Millisecond)
	l.Heal()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("have %d bytes, %v, want the orderly end", n, err)
	}
}

func TestResetBreaksEverythingAndNewConnectionsWork(t *testing.T) {
	l := open(t, Config{Seed: 5})
	c := dial(t, l)
	send(t, c, "x")
	expect(t, c, "x")
	l.Cut()
	send(t, c, "lost")
	l.Reset()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("have %v, want a reset", err)
	}
	l.Heal()
	again := dial(t, l)
	send(t, again, "y")
	expect(t, again, "y")
}

func TestAbsentTargetBreaksTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := listener.Addr().String()
	_ = listener.Close()

	l := open(t, Config{Target: target, Seed: 6, Delay: Delay{Min: 20 * time.Millisecond, Max: 20 * time.Millisecond}})
	c := dial(t, l)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("have %v, want a broken connection", err)
	}

	back, err := net.Listen("tcp", target)
	if err != nil {
		t.Skipf("somebody else took the port: %v", err)
	}
	t.Cleanup(func() { _ = back.Close() })
	again := dial(t, l)
	send(t, again, "hello")
	server, err := back.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	expect(t, server, "hello")
}

func TestCloseEndsConnectionsThatAreCut(t *testing.T) {
	l := open(t, Config{Delay: Delay{Min: time.Hour, Max: time.Hour}, Seed: 7})
	c := dial(t, l)
	send(t, c, "x")
	l.Cut()
	l.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("have %v, want a broken connection", err)
	}
	if n := l.Connections(); n != 0 {
		t.Errorf("%d connections left", n)
	}
}

func TestDelaysRepeatForTheSameSeed(t *testing.T) {
	d := Delay{Min: 20 * time.Millisecond, Max: 80 * time.Millisecond}
	draw := func(seed uint64) (delays []time.Duration) {
		c := &conn{link: &Link{cfg: Config{Seed: seed}}, serial: 9}
		rnd := c.random(uint64(Back))
		for range 50 {
			x := d.draw(rnd)
			if x < d.Min || x > d.Max {
				t.Fatalf("delay %v is outside %v … %v", x, d.Min, d.Max)
			}
			delays = append(delays, x)
		}
		return delays
	}
	one, same, other := draw(1), draw(1), draw(2)
	differs := false
	for i := range one {
		if one[i] != same[i] {
			t.Fatalf("delay %d: have %v, then %v", i, one[i], same[i])
		}
		differs = differs || one[i] != other[i]
	}
	if !differs {
		t.Error("another seed gave the same delays")
	}
}

func TestInvalidConfigIsRefused(t *testing.T) {
	for _, tt := range []struct {
		reason string
		cfg    Config
	}{
		{"no target", Config{}},
		{"delays the wrong way round", Config{Target: "x:1", Delay: Delay{Min: 2, Max: 1}}},
		{"negative buffer", Config{Target: "x:1", Buffer: -1}},
	} {
		if l, err := Listen(tt.cfg); err == nil {
			l.Close()
			t.Errorf("%s: accepted", tt.reason)
		}
	}
}
