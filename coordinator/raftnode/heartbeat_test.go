package raftnode

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// peer is another voter, played by the test over TCP: it grants every vote and
// acknowledges every message.
type peer struct {
	*raft.NetworkTransport
	stop chan struct{}
	wg   sync.WaitGroup
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{NetworkTransport: overTCP(t), stop: make(chan struct{})}
	p.wg.Go(p.answer)
	t.Cleanup(p.silence)
	return p
}

// overTCP is the transport that raft brings along.
func overTCP(t *testing.T) *raft.NetworkTransport {
	t.Helper()
	trans, err := raft.NewTCPTransport("127.0.0.1:0", nil, 3, time.Second, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		trans.Close()
		trans.CloseStreams()
	})
	return trans
}

func (p *peer) answer() {
	for {
		select {
		case <-p.stop:
			return
		case rpc := <-p.Consumer():
			switch req := rpc.Command.(type) {
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{Term: req.Term, Granted: true}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{Term: req.Term, Granted: true}, nil)
			case *raft.AppendEntriesRequest:
				last := req.PrevLogEntry + uint64(len(req.Entries))
				rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, LastLog: last, Success: true}, nil)
			default:
				rpc.Respond(nil, errors.New("not a message of this play"))
			}
		}
	}
}

// silence makes the peer answer nothing more, like one that has been cut off.
func (p *peer) silence() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.wg.Wait()
}

// hashicorp/raft#695. Raft hands heartbeats to the transport's heartbeat handler,
// beside its main loop, which goes on leading until something wakes it; what is
// proposed then is written under the term that the heartbeat has just brought. A
// deposed leader so has an entry of its successor's term that the successor never
// wrote, and logs that agree on index and term differ for ever.
//
//	n1 leads term 1      n2 is elected in term 2 with n3's vote      n2 ── heartbeat ──► n1
//
// The first row shows the bug, so that it is seen when raft has mended it and the
// wrapper may go; the second that the wrapper is in force: Verify counts the answers
// that it records, so no node leads without it. The in-memory transport has no
// heartbeat handler and cannot show the bug.
func TestDeposedLeaderWritesNothingInTheNextTerm(t *testing.T) {
	for _, tt := range []struct {
		reason string
		wrap   func(*raft.NetworkTransport) raft.Transport
		writes bool
	}{
		{"raft's own transport", func(n *raft.NetworkTransport) raft.Transport { return n }, true},
		{"without the heartbeat fast path", func(n *raft.NetworkTransport) raft.Transport { return transport{n, newAcks()} }, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			own, n2, n3 := overTCP(t), newPeer(t), newPeer(t)
			conf := raft.DefaultConfig()
			conf.LocalID, conf.Logger, conf.NoLegacyTelemetry = "n1", hclog.NewNullLogger(), true
			// Nothing happens by itself while the test runs.
			conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = time.Minute, time.Minute, time.Minute
			store, snaps := raft.NewInmemStore(), raft.NewDiscardSnapshotStore()
			members := raft.Configuration{Servers: []raft.Server{
				{ID: "n1", Address: own.LocalAddr()}, {ID: "n2", Address: n2.LocalAddr()}, {ID: "n3", Address: n3.LocalAddr()},
			}}
			if err := raft.BootstrapCluster(conf, store, store, snaps, own, members); err != nil {
				t.Fatal(err)
			}
			n1, err := raft.NewRaft(conf, &list{}, store, store, snaps, tt.wrap(own))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := n1.Shutdown().Error(); err != nil {
					t.Error(err)
				}
			}()

			from := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n2"), Addr: []byte(n2.LocalAddr())}
			if err := n2.TimeoutNow("n1", own.LocalAddr(), &raft.TimeoutNowRequest{RPCHeader: from}, &raft.TimeoutNowResponse{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "n1 leads and has nothing to do", func() bool {
				return n1.State() == raft.Leader && n1.Barrier(time.Second).Error() == nil
			})
			led := n1.CurrentTerm()
			before, _ := store.LastIndex()

			// n3 has voted for n2; neither answers its old leader any more.
			n2.silence()
			n3.silence()
			var resp raft.AppendEntriesResponse
			heartbeat := &raft.AppendEntriesRequest{RPCHeader: from, Term: led + 1}
			if err := n2.AppendEntries("n1", own.LocalAddr(), heartbeat, &resp); err != nil || !resp.Success {
				t.Fatalf("heartbeat of the new leader: have %+v, %v", resp, err)
			}
			answer := n1.Apply([]byte("of the old leader"), time.Second).Error()

			var wrote raft.Log
			last, _ := store.LastIndex()
			if last > before {
				if err := store.GetLog(last, &wrote); err != nil {
					t.Fatal(err)
				}
			}
			if have := last > before && wrote.Term > led; have != tt.writes {
				t.Errorf("n1, which led term %d, answers %v and its last entry is %d of term %d with %q (%d before); written in the next term: have %v, want %v",
					led, answer, last, wrote.Term, wrote.Data, before, have, tt.writes)
			}
			if !tt.writes && !errors.Is(answer, raft.ErrNotLeader) {
				t.Errorf("propose at the deposed leader: have %v, want %v", answer, raft.ErrNotLeader)
			}
		})
	}
}
