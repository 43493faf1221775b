package redistest

import (
	"bufio"
	"errors"
	"strings"
	"testing"
)

func TestStartSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Start(Options{}); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "install") {
		t.Errorf("want a hint how to install it, have %v", err)
	}
}

func TestOneAddressThroughRestarts(t *testing.T) {
	s := Run(t)
	addr := s.Addr()
	for _, tc := range []struct {
		name string
		keep bool
		want string
	}{{"with the last save", true, "saved"}, {"empty", false, ""}} {
		if _, err := s.Do("SET", "k", "saved"); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Do("SET", "k", "lost"); err != nil {
			t.Fatal(err)
		}
		pid := s.PID()
		if err := s.Restart(tc.keep); err != nil {
			t.Fatal(err)
		}
		have, err := s.Do("GET", "k")
		if err != nil || have != tc.want || s.Addr() != addr || s.PID() == pid {
			t.Errorf("%s: want %q in another process at %s, have %q at %s, %v", tc.name, tc.want, addr, have, s.Addr(), err)
		}
	}
}

func TestRead(t *testing.T) {
	for _, tc := range []struct{ name, in, want, err string }{
		{"status", "+OK\r\n", "OK", ""},
		{"integer", ":7\r\n", "7", ""},
		{"text", "$4\r\na\r\nb\r\n", "a\r\nb", ""},
		{"nothing", "$-1\r\n", "", ""},
		{"list", "*2\r\n:1\r\n$1\r\nx\r\n", "1\nx", ""},
		{"error", "-ERR no\r\n", "", "ERR no"},
		{"cut off", "$4\r\na", "", "read reply"},
		{"RESP3", "%1\r\n", "", "unknown type"},
	} {
		have, err := read(bufio.NewReader(strings.NewReader(tc.in)))
		if have != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: want %q, %q, have %q, %v", tc.name, tc.want, tc.err, have, err)
		}
	}
}
