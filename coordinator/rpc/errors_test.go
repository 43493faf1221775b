package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

func TestEveryErrorHasItsCode(t *testing.T) {
	_, s, _ := serve(t)
	for _, tt := range []struct {
		err  error
		code codes.Code
	}{
		{nil, codes.OK},
		{ErrNotLeader, codes.FailedPrecondition},
		{ErrNotReady, codes.Unavailable},
		{ErrNotApplied, codes.Unavailable},
		{ErrUnknown, codes.Unavailable},
		{ErrTooLarge, codes.InvalidArgument},
		{ErrRulesDir, codes.FailedPrecondition},
		{ledger.ErrVersion, codes.Aborted},
		{ledger.ErrUnknownRegion, codes.NotFound},
		{ledger.ErrNotDrained, codes.FailedPrecondition},
		{ledger.ErrInvalid, codes.InvalidArgument},
		{rules.Problems{{File: "a.yaml", Line: 1, Col: 2, Message: "wrong"}}, codes.InvalidArgument},
		{quoratev1.ErrMalformed, codes.InvalidArgument},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled},
		{errors.New("anything else"), codes.Internal},
		{status.Error(codes.ResourceExhausted, "as it is"), codes.ResourceExhausted},
	} {
		err := tt.err
		if err != nil && status.Code(err) == codes.Unknown {
			err = fmt.Errorf("do something: %w", err)
		}
		if have := status.Code(s.toStatus(err)); have != tt.code {
			t.Errorf("%v: have %v, want %v", tt.err, have, tt.code)
		}
	}
}

func TestAdminMapsWhatTheStateSays(t *testing.T) {
	n, _, conn := serve(t)
	client := quoratev1.NewAdminClient(conn)
	source := []*quoratev1.Source{{Name: "a.yaml", Text: "domain: a\ndescriptors: []\n"}}
	if resp, err := client.ApplyRules(t.Context(), &quoratev1.ApplyRulesRequest{Sources: source}); err != nil || resp.GetRulesVersion() != 1 {
		t.Errorf("apply: have %v, %v", resp, err)
	}
	for err, code := range map[error]codes.Code{ErrNotLeader: codes.FailedPrecondition, ErrNotReady: codes.Unavailable, ErrUnknown: codes.Unavailable} {
		n.err = err
		calls := map[string]func() error{
			"GetRules":    func() error { _, err := client.GetRules(t.Context(), &quoratev1.GetRulesRequest{}); return err },
			"ListRegions": func() error { _, err := client.ListRegions(t.Context(), &quoratev1.ListRegionsRequest{}); return err },
			"ListLeases":  func() error { _, err := client.ListLeases(t.Context(), &quoratev1.ListLeasesRequest{}); return err },
			"Explain":     func() error { _, err := client.Explain(t.Context(), &quoratev1.ExplainRequest{}); return err },
			"AddRegion": func() error {
				_, err := client.AddRegion(t.Context(), &quoratev1.AddRegionRequest{Name: "x"})
				return err
			},
			"DrainRegion":  func() error { _, err := client.DrainRegion(t.Context(), &quoratev1.DrainRegionRequest{}); return err },
			"RemoveRegion": func() error { _, err := client.RemoveRegion(t.Context(), &quoratev1.RemoveRegionRequest{}); return err },
			"ApplyRules": func() error {
				_, err := client.ApplyRules(t.Context(), &quoratev1.ApplyRulesRequest{Sources: source})
				return err
			},
		}
		for name, call := range calls {
			if have := status.Code(call()); have != code {
				t.Errorf("%s with %v: have %v, want %v", name, err, have, code)
			}
		}
		if resp, err := client.NodeStatus(t.Context(), &quoratev1.NodeStatusRequest{}); err != nil || resp.GetNode() != "n1" {
			t.Errorf("status is every node's own: have %v, %v", resp, err)
		}
	}
}

// A node that cannot prove that it leads must not send its agents to itself.
func TestHintNeverPointsAtTheNodeItself(t *testing.T) {
	n, s, _ := serve(t)
	n.hint = Hint{"n1", "n1:7600"}
	if h := hintOf(s.toStatus(ErrNotLeader)); h == nil || h.GetNode() != "" || h.GetAddress() != "" {
		t.Errorf("have %v, want a hint without an address", h)
	}
}
