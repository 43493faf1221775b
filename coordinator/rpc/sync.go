package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/coordinator/quota"
	quoratev1 "github.com/quorate/quorate/proto/quorate/v1"
)

type syncServer = grpc.BidiStreamingServer[quoratev1.SyncRequest, quoratev1.SyncResponse]

type leaseService struct {
	quoratev1.UnimplementedLeaseServer
	*Server
}

// errStuck ends a stream whose reader does not read.
var errStuck = status.Error(codes.DeadlineExceeded, "the agent does not read what it is sent")

// Sync implements quoratev1.LeaseServer. Three goroutines work on a stream: this
// one waits; one receives, and ends when the stream does; one answers and
// pushes. When sending blocks for too long this one returns, which frees it.
func (l leaseService) Sync(rpc syncServer) error {
	ctx, cancel := context.WithCancelCause(rpc.Context())
	defer cancel(nil)
	st := &stream{out: newOutbox(), cancel: cancel}
	if !l.streams.enter(st) {
		return status.Errorf(codes.ResourceExhausted, "%d agents are connected, which is as many as a coordinator takes", maxStreams)
	}
	defer func() {
		if id, gone := l.streams.leave(st); gone {
			l.ports.Leader.Gone(id.region, id.agent)
		}
	}()
	requests := make(chan *quoratev1.SyncRequest)
	go func() {
		for {
			m, err := rpc.Recv()
			if err != nil {
				cancel(err)
				return
			}
			select {
			case requests <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	done, stuck := make(chan error, 1), make(chan struct{})
	go func() { done <- l.converse(ctx, rpc, st, requests, stuck) }()
	select {
	case err := <-done:
		return l.toStatus(err)
	case <-stuck:
		return errStuck
	}
}

// converse answers requests one at a time and pushes between them.
func (l leaseService) converse(ctx context.Context, rpc syncServer, st *stream, requests <-chan *quoratev1.SyncRequest, stuck chan struct{}) error {
	send := func(r quota.SyncResponse) error {
		late := time.AfterFunc(l.cfg.SendTimeout, func() { close(stuck) })
		defer late.Stop()
		return rpc.Send(quoratev1.FromResponse(r))
	}
	for {
		select {
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, io.EOF) {
				return nil // the agent has closed its side
			}
			return err
		case m := <-requests:
			resp, err := l.answer(ctx, st, m)
			if err != nil {
				return err
			}
			if resp == nil {
				continue // it was a report
			}
			if err := send(*resp); err != nil {
				return err
			}
		case <-st.out.ready:
			m, ok := st.out.take()
			if !ok {
				continue
			}
			if err := send(m); err != nil {
				return err
			}
		}
	}
}

// answer answers one request in time, if only by a refusal; nil to a report (Seq
// 0), which is only taken.
func (l leaseService) answer(ctx context.Context, st *stream, m *quoratev1.SyncRequest) (*quota.SyncResponse, error) {
	req, err := quoratev1.ToRequest(m)
	if err != nil {
		return nil, err
	}
	id := agentID{req.Region, req.Agent}
	fresh := st.id == (agentID{})
	if fresh {
		l.streams.introduce(st, id)
	} else if st.id != id {
		return nil, fmt.Errorf("%w: the stream of agent %s of region %s carries a request of agent %s of region %s",
			quoratev1.ErrMalformed, st.id.agent, st.id.region, req.Agent, req.Region)
	}
	if req.Seq == 0 {
		l.metrics.syncs.WithLabelValues("reported").Inc()
		return nil, l.ports.Leader.Report(req)
	}
	started := time.Now()
	answerCtx, cancel := context.WithTimeout(ctx, l.cfg.AnswerTimeout)
	defer cancel()
	resp, err := l.ports.Leader.Sync(answerCtx, req, fresh)
	outcome := "answered"
	switch {
	case err == nil && resp.Refusal != nil:
		outcome = "refused"
	case err != nil && answerCtx.Err() != nil && ctx.Err() == nil:
		outcome = "late"
		resp = quota.SyncResponse{Seq: req.Seq, Cluster: resp.Cluster, Refusal: &quota.Refusal{
			Code: quota.RefusedBusy, Message: fmt.Sprintf("the coordinator had no answer within %s; ask again", l.cfg.AnswerTimeout),
		}}
		err = nil
	case err != nil:
		outcome = "failed"
	}
	l.metrics.syncs.WithLabelValues(outcome).Inc()
	l.metrics.syncSeconds.Observe(time.Since(started).Seconds())
	return &resp, err
}
