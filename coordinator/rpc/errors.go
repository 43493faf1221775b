package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/ledger"
	"github.com/quorate/quorate/coordinator/rules"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

// codesOf maps sentinels to codes; the first that matches counts.
var codesOf = []struct {
	err  error
	code codes.Code
}{
	{ErrNotReady, codes.Unavailable},
	{ErrNotApplied, codes.Unavailable},
	{ErrUnknown, codes.Unavailable},
	{ErrTooLarge, codes.InvalidArgument},
	{ErrRulesDir, codes.FailedPrecondition},
	{ledger.ErrRules, codes.InvalidArgument},
	{rules.ErrOverride, codes.InvalidArgument},
	{ledger.ErrInvalid, codes.InvalidArgument},
	{ledger.ErrVersion, codes.Aborted},
	{ledger.ErrUnknownRegion, codes.NotFound},
	{ledger.ErrNotDrained, codes.FailedPrecondition},
	{ledger.ErrOldTerm, codes.Unavailable},
	{quoratev1.ErrMalformed, codes.InvalidArgument},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// toStatus is the only place where an error becomes a status code.
func (s *Server) toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, ErrNotLeader) {
		return s.notLeader(err)
	}
	var problems rules.Problems
	if errors.As(err, &problems) {
		return status.Error(codes.InvalidArgument, problems.Error())
	}
	for _, c := range codesOf {
		if errors.Is(err, c.err) {
			return status.Error(c.code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

// notLeader answers where the leader is. A node that still takes itself for the
// leader but cannot prove it does not point at itself.
func (s *Server) notLeader(err error) error {
	hint := s.ports.Self.Hint()
	if hint.Node == s.ports.Self.Status().Node {
		hint = Hint{}
	}
	st := status.New(codes.FailedPrecondition, err.Error())
	with, detailErr := st.WithDetails(&quoratev1.LeaderHint{Node: hint.Node, Address: hint.Address})
	if detailErr != nil {
		return st.Err()
	}
	return with.Err()
}
