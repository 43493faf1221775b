package raftnode

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// K77: an entry that was refused, above all while leadership is handed over, may
// be proposed again as it is. All other errors leave its outcome open: who takes
// those for failures grants twice, and who takes them for success not at all.
func TestK77ClassifySaysWhatBecameOfTheEntry(t *testing.T) {
	disk := errors.New("write log: no space left on device")
	for _, tt := range []struct {
		reason    string
		err, want error
	}{
		{"applied", nil, nil},
		{"a follower takes no entries", raft.ErrNotLeader, ErrNotApplied},
		{"a leader that hands over takes none any more", raft.ErrLeadershipTransferInProgress, ErrNotApplied},
		{"the entry never got into the queue", raft.ErrEnqueueTimeout, ErrNotApplied},
		{"wrapped on its way", fmt.Errorf("apply: %w", raft.ErrLeadershipTransferInProgress), ErrNotApplied},
		{"the next leader may have the entry", raft.ErrLeadershipLost, ErrUnknown},
		{"the entry may be on the other nodes", raft.ErrRaftShutdown, ErrUnknown},
		{"a snapshot took the place of the log", raft.ErrAbortedByRestore, ErrUnknown},
		{"a store may fail after it has written", disk, ErrUnknown},
	} {
		have := classify(tt.err)
		if !errors.Is(have, tt.want) || (have == nil) != (tt.want == nil) {
			t.Errorf("%s: have %v, want %v", tt.reason, have, tt.want)
			continue
		}
		if have == nil {
			continue
		}
		if errors.Is(have, ErrNotApplied) == errors.Is(have, ErrUnknown) {
			t.Errorf("%s: %v is not exactly one of not applied and unknown", tt.reason, have)
		}
		if !errors.Is(have, tt.err) {
			t.Errorf("%s: %v does not say the cause %v", tt.reason, have, tt.err)
		}
	}
}
