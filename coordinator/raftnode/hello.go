package raftnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// hello is the first line in each direction of a connection between nodes, one
// JSON object, at most maxHello bytes with its line feed. It keeps nodes of
// different clusters apart and lets a new node ask what the others know.
type hello struct {
	Version int    `json:"v"`
	Purpose string `json:"purpose,omitempty"` // of the dialer: raft or ask
	Node    string `json:"node"`
	Cluster string `json:"cluster,omitempty"`
	// Members is the initial cluster of the answering node, in one form.
	Members string `json:"members,omitempty"`
	// Resuming is set while a node has a log but does not know its cluster id yet.
	Resuming bool `json:"resuming,omitempty"`
	// Refused says why the answering node closes the connection.
	Refused string `json:"refused,omitempty"`
}

const (
	helloVersion = 1
	maxHello     = 16 << 10
	purposeRaft  = "raft"
	purposeAsk   = "ask"
)

// ErrRefused means that another node did not accept this one.
var ErrRefused = errors.New("refused by the other node")

func writeHello(c net.Conn, h hello) error {
	h.Version = helloVersion
	line, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write greeting: %w", err)
	}
	if _, err := c.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write greeting: %w", err)
	}
	return nil
}

// readHello reads one line and not a byte more: what follows is raft's.
func readHello(c net.Conn) (hello, error) {
	var h hello
	var line []byte
	var b [1]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return h, fmt.Errorf("read greeting: %w", err)
		}
		if b[0] == '\n' {
			break
		}
		if line = append(line, b[0]); len(line) >= maxHello || line[0] != '{' {
			return h, errors.New("read greeting: not a quorate node")
		}
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("read greeting: %w", err)
	}
	if h.Version != helloVersion {
		return h, fmt.Errorf("read greeting: version %d, this node speaks %d; upgrade the older node", h.Version, helloVersion)
	}
	return h, nil
}
