package redistest

import (
	"net"
	"runtime"
	"testing"
)

func TestAHeldPortIsForServersThatNameIt(t *testing.T) {
	p, err := HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	for range 2 { // a server that comes again
		l, err := net.Listen("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if second, err := net.Listen("tcp", p.Addr()); err == nil {
			_ = second.Close()
			t.Error("two servers have one port")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAHeldPortIsGivenToNobodyElse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this kernel may keep no port for a server that is away")
	}
	// Of 28,000 ports a kernel that did not keep these would give several away again.
	const many = 400
	seen := map[int]bool{}
	for range many {
		p, err := HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		if p.fd < 0 {
			t.Fatal("the port is not held")
		}
		if seen[p.Number] {
			t.Fatalf("port %d is held twice", p.Number)
		}
		seen[p.Number] = true
	}
	for range many {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // it was a trial
		if n := l.Addr().(*net.TCPAddr).Port; seen[n] {
			t.Fatalf("the kernel has given away the held port %d", n)
		}
	}
}
