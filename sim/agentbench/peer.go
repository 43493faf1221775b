package agentbench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/quorate/quorate/regional/redisbucket/redistest"
)

// startPeer runs the shell command of another RLS server. It gets the address of its
// Redis (host:port) in $REDIS and the gRPC port that it has to open in $PORT, and is given
// ten seconds for that.
func startPeer(command, redis string) (*process, error) {
	port, err := redistest.HoldPort()
	if err != nil {
		return nil, fmt.Errorf("start peer: %w", err)
	}
	defer port.Release()
	// exec: its CPU time is that of the process that is started here.
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Env = append(os.Environ(), "REDIS="+redis, "PORT="+strconv.Itoa(port.Number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start peer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start peer: %w", err)
	}
	p := &process{cmd: cmd, stdin: stdin, addr: port.Addr()}
	for range 200 {
		c, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			return p, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("start peer: nothing listens at %s: does %q open $PORT?", p.addr, command), p.stop())
}
