package envoyrls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/coordinator/quota"
	"github.com/quorate/quorate/coordinator/rules"
	"github.com/quorate/quorate/regional/enforce"
	"github.com/quorate/quorate/regional/headers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves cfg on a free port and returns a connection to it.
func start(t *testing.T, cfg Config) (*Server, *grpc.ClientConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(cfg)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, conn
}

func limit(n uint32, per time.Duration) *rules.Limit {
	return &rules.Limit{
		Limit: quota.Limit{Capacity: quota.Capacity{
			Rate: quota.Rate{Tokens: quota.Whole(uint64(n)), Per: quota.MicrosOf(per)}, Burst: quota.Whole(uint64(n)),
		}},
		RequestsPerUnit: n,
	}
}

func descriptor(kv ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(kv); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: kv[i], Value: kv[i+1]})
	}
	return d
}

func TestStatusesKeepOrderAndLength(t *testing.T) {
	perUser := &rules.Rule{ID: "api/user", Name: "per-user", Metadata: map[string]any{"team": "a"}}
	d := enforce.Decision{Over: true, Retry: 30 * time.Second, Statuses: []enforce.Status{
		{Rule: perUser, Limit: limit(100, time.Minute), Remaining: 7, Reset: 1500 * time.Millisecond, Reason: enforce.WithinLease},
		{Reason: enforce.NoRule},
		{Rule: &rules.Rule{ID: "api/free", Unlimited: true}, Reason: enforce.Unlimited},
		{Over: true, Rule: perUser, Limit: limit(10, 5*time.Minute), Reset: time.Minute, Retry: 30 * time.Second, Reason: enforce.LeaseEmpty},
	}}
	var have enforce.Request
	_, conn := start(t, Config{
		Decide: func(_ context.Context, r enforce.Request, to *enforce.Decision) error {
			have.Domain, *to = r.Domain, d
			for _, d := range r.Descriptors {
				have.Descriptors = append(have.Descriptors, enforce.Descriptor{Entries: slices.Clone(d.Entries)})
			}
			return nil
		},
		Headers: headers.Style{Legacy: true, RetryAfter: true}, Metadata: true,
	})
	m, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "api", Descriptors: []*common.RateLimitDescriptor{descriptor("user", "1", "path", "/a"), descriptor("x", "")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if have.Domain != "api" || len(have.Descriptors) != 2 || have.Descriptors[0].Entries[1] != (rules.Entry{Key: "path", Value: "/a"}) {
		t.Errorf("request arrived as %+v", have)
	}
	if m.OverallCode != rls.RateLimitResponse_OVER_LIMIT || len(m.Statuses) != 4 {
		t.Fatalf("want 4 statuses over limit, have %v", m)
	}
	one := m.Statuses[0]
	if one.Code != rls.RateLimitResponse_OK || one.LimitRemaining != 7 || one.DurationUntilReset.AsDuration() != 1500*time.Millisecond ||
		one.CurrentLimit.GetName() != "per-user" || one.CurrentLimit.GetRequestsPerUnit() != 100 ||
		one.CurrentLimit.GetUnit() != rls.RateLimitResponse_RateLimit_MINUTE {
		t.Errorf("status of a limit: have %v", one)
	}
	if none := m.Statuses[1]; none.Code != rls.RateLimitResponse_OK || none.CurrentLimit != nil || none.DurationUntilReset != nil {
		t.Errorf("status without rule: have %v", none)
	}
	if free := m.Statuses[2]; free.LimitRemaining != math.MaxUint32 || free.CurrentLimit != nil {
		t.Errorf("unlimited status: have %v", free)
	}
	if over := m.Statuses[3]; over.Code != rls.RateLimitResponse_OVER_LIMIT || over.CurrentLimit.GetUnit() != rls.RateLimitResponse_RateLimit_UNKNOWN {
		t.Errorf("five minutes are no unit of Envoy's: have %v", over)
	}
	var hs []string
	for _, h := range m.ResponseHeadersToAdd {
		hs = append(hs, h.Key+"="+h.Value)
	}
	if want, have := "X-RateLimit-Limit=10 X-RateLimit-Remaining=0 X-RateLimit-Reset=60 X-RateLimit-Retry-After=30 Retry-After=30", strings.Join(hs, " "); have != want {
		t.Errorf("headers: want %s, have %s", want, have)
	}
	first := m.DynamicMetadata.GetFields()["descriptors"].GetListValue().GetValues()[0].GetStructValue().GetFields()
	if first["rule"].GetStringValue() != "api/user" || first["reason"].GetStringValue() != "within_lease" ||
		first["metadata"].GetStructValue().GetFields()["team"].GetStringValue() != "a" {
		t.Errorf("dynamic metadata: have %v", m.DynamicMetadata)
	}
}

// Calls that are under way at the same time have nothing in common, though each is in
// memory that others were in before.
func TestCallsKeepApart(t *testing.T) {
	one := limit(1, time.Second)
	_, conn := start(t, Config{Decide: func(_ context.Context, r enforce.Request, d *enforce.Decision) error {
		statuses := d.Statuses[:0]
		for _, of := range r.Descriptors {
			n, err := strconv.ParseUint(of.Entries[0].Value, 10, 32)
			if err != nil || strconv.FormatUint(n/100, 10) != r.Domain {
				return fmt.Errorf("have %+v", r)
			}
			runtime.Gosched()
			statuses = append(statuses, enforce.Status{Limit: one, Remaining: uint32(n)})
		}
		*d = enforce.Decision{Statuses: statuses}
		return nil
	}})
	c := rls.NewRateLimitServiceClient(conn)
	var g errgroup.Group
	for caller := range 8 {
		g.Go(func() error {
			for i := range 100 {
				m := &rls.RateLimitRequest{Domain: strconv.Itoa(caller)}
				for j := range 1 + (i+caller)%5 {
					m.Descriptors = append(m.Descriptors, descriptor("n", strconv.Itoa(100*caller+j)))
				}
				have, err := c.ShouldRateLimit(t.Context(), m)
				if err != nil || len(have.Statuses) != len(m.Descriptors) {
					return fmt.Errorf("have %v, %v on %v", have, err, m)
				}
				for j, s := range have.Statuses {
					if want := uint32(100*caller + j); s.LimitRemaining != want {
						return fmt.Errorf("want %d, have %v", want, s)
					}
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// Envoy's filter cannot hold a request back, so whoever can is told in a header field
// and in the metadata.
func TestDelayGoesOut(t *testing.T) {
	d := enforce.Decision{Delay: 1500 * time.Microsecond, Statuses: []enforce.Status{
		{Rule: &rules.Rule{ID: "api/a"}, Limit: limit(1, time.Second), Delay: 1500 * time.Microsecond, Reason: enforce.WithinLease},
		{Rule: &rules.Rule{ID: "api/b"}, Limit: limit(1, time.Second), Reason: enforce.WithinLease},
	}}
	m := written(t, d, headers.Style{Delay: true}, true)
	if hs := m.ResponseHeadersToAdd; len(hs) != 1 || hs[0].Key != headers.Delay || hs[0].Value != "2" {
		t.Errorf("have headers %v", hs)
	}
	fields := m.DynamicMetadata.GetFields()
	of := func(i int) *structpb.Value {
		return fields["descriptors"].GetListValue().GetValues()[i].GetStructValue().GetFields()["delay_ms"]
	}
	if fields["delay_ms"].GetNumberValue() != 2 || of(0).GetNumberValue() != 2 || of(1) != nil {
		t.Errorf("have metadata %v", m.DynamicMetadata)
	}
	d.Delay, d.Statuses = 0, d.Statuses[1:]
	if m := written(t, d, headers.Full(), true); m.DynamicMetadata.GetFields()["delay_ms"] != nil {
		t.Errorf("no delay: have metadata %v", m.DynamicMetadata)
	}
}

// request is what is read of a message.
func request(t *testing.T, m *rls.RateLimitRequest) enforce.Request {
	t.Helper()
	var c call
	if err := cmp.Or(c.read(marshalled(t, m)), c.bad); err != nil {
		t.Fatal(err)
	}
	return c.request
}

func overridden(n uint32, unit typev3.RateLimitUnit, kv ...string) *common.RateLimitDescriptor {
	d := descriptor(kv...)
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

func TestOverridesOfDescriptors(t *testing.T) {
	for unit, want := range map[typev3.RateLimitUnit]string{
		typev3.RateLimitUnit_SECOND: "7/second", typev3.RateLimitUnit_MINUTE: "7/minute", typev3.RateLimitUnit_HOUR: "7/hour",
		typev3.RateLimitUnit_DAY: "7/day", typev3.RateLimitUnit_MONTH: "7/month", typev3.RateLimitUnit_YEAR: "7/year",
		7: "7/week", // newer than this version of Envoy's API
	} {
		r := request(t, &rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{overridden(7, unit, "a", "1"), descriptor("a", "1")}})
		if have := r.Descriptors[0].Override.String(); have != want || !r.Descriptors[1].Override.IsZero() {
			t.Errorf("%v: have %q, want %q: %+v", unit, have, want, r)
		}
	}
	r := request(t, &rls.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{
		overridden(0, typev3.RateLimitUnit_DAY, "a", "1"), overridden(math.MaxUint32, typev3.RateLimitUnit_SECOND, "a", "1"),
	}})
	if a, b := r.Descriptors[0].Override.String(), r.Descriptors[1].Override.String(); a != "0/day" || b != "4294967295/second" {
		t.Errorf("have %s and %s", a, b)
	}
}

func TestOverridesThatAreNone(t *testing.T) {
	asked := false
	s, conn := start(t, Config{Decide: func(context.Context, enforce.Request, *enforce.Decision) error {
		asked = true
		return nil
	}})
	for _, unit := range []typev3.RateLimitUnit{typev3.RateLimitUnit_UNKNOWN, 8, 255, 256, 257, math.MaxInt32, -1, math.MinInt32} {
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("a", "1"), overridden(7, unit, "a", "1")},
		})
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.HasPrefix(st.Message(), "descriptors[1].limit: ") || !strings.Contains(st.Message(), "give one of second, minute") {
			t.Errorf("%d: want InvalidArgument that says where, what and what to do, have %v", unit, err)
		}
	}
	for text, want := range map[string]error{
		`{"requestsPerUnit":7}`:                                    rules.ErrOverride,
		`{"requestsPerUnit":7,"unit":"UNKNOWN"}`:                   rules.ErrOverride,
		`{"requestsPerUnit":7,"unit":300}`:                         rules.ErrOverride,
		`{"requestsPerUnit":7,"unit":"MINUTE","unitMultiplier":5}`: rules.ErrOverride,
		`{"requestsPerUnit":7,"unit":"FORTNIGHT"}`:                 ErrBadMessage,
		`{"requestsPerUnit":4294967296,"unit":"SECOND"}`:           ErrBadMessage,
		`{"requestsPerUnit":-1,"unit":"SECOND"}`:                   ErrBadMessage,
	} {
		_, _, err := s.JSON(t.Context(), []byte(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"1"}],"limit":`+text+`}]}`))
		if !errors.Is(err, want) {
			t.Errorf("%s: have %v, want %v", text, err, want)
		}
	}
	if asked {
		t.Error("a limit that is none reached the decision")
	}
}

func TestK23WeightsOfRequestAndDescriptor(t *testing.T) {
	zero := descriptor("a", "1")
	zero.HitsAddend = wrapperspb.UInt64(0)
	huge := descriptor("a", "1")
	huge.HitsAddend = wrapperspb.UInt64(math.MaxUint64)
	refund := descriptor("a", "1")
	refund.HitsAddend, refund.IsNegativeHits = wrapperspb.UInt64(5), true
	r := request(t, &rls.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*common.RateLimitDescriptor{descriptor("a", "1"), zero, huge, refund}})
	if r.Hits != 3 || r.Descriptors[0].Hits != nil {
		t.Errorf("without its own weight a descriptor takes the request's: have %+v", r)
	}
	for i, want := range []uint64{0, math.MaxUint64, 5} {
		d := r.Descriptors[i+1]
		if d.Hits == nil || *d.Hits != want || d.Refund != (i == 2) {
			t.Errorf("descriptor %d: want %d, have %+v", i+1, want, d)
		}
	}
}

func TestK24NegativeHitsAreGivenBack(t *testing.T) {
	refund := descriptor("a", "1")
	refund.IsNegativeHits = true
	r := request(t, &rls.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: []*common.RateLimitDescriptor{refund, descriptor("a", "1")}})
	if r.Hits != 3 || r.Descriptors[0].Hits != nil || !r.Descriptors[0].Refund || r.Descriptors[1].Refund {
		t.Errorf("the request's weight, given back by the first descriptor only: have %+v", r)
	}
}

func TestErrorsAreCodeUnknown(t *testing.T) {
	fail := enforce.ErrEmptyDomain
	_, conn := start(t, Config{Decide: func(context.Context, enforce.Request, *enforce.Decision) error {
		return fmt.Errorf("decide: %w", fail)
	}})
	_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{})
	if st := status.Convert(err); st.Code() != codes.Unknown || st.Message() != "decide: "+fail.Error() {
		t.Fatalf("want Unknown with the cause, have %v", err)
	}
}

func TestHostileMessagesAreRefused(t *testing.T) {
	asked := false
	_, conn := start(t, Config{Decide: func(context.Context, enforce.Request, *enforce.Decision) error {
		asked = true
		return nil
	}})
	c := rls.NewRateLimitServiceClient(conn)
	if _, err := c.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("a", strings.Repeat("x", 1<<20))},
	}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("large message: want ResourceExhausted, have %v", err)
	}
	if _, err := c.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "d", Descriptors: []*common.RateLimitDescriptor{descriptor("a", "\xff")},
	}); status.Code(err) != codes.Internal {
		t.Errorf("invalid UTF-8: want Internal, have %v", err)
	}
	if asked {
		t.Error("a hostile message reached the decision")
	}
}

func TestHealthByName(t *testing.T) {
	s, conn := start(t, Config{Reflection: true})
	h := healthpb.NewHealthClient(conn)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING} {
		s.SetServing(want == healthpb.HealthCheckResponse_SERVING)
		for _, name := range []string{"", HealthService} {
			if r, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}); err != nil || r.Status != want {
				t.Errorf("%q: want %v, have %v, %v", name, want, r, err)
			}
		}
	}
}

func TestReflectionKnowsTheService(t *testing.T) {
	_, conn := start(t, Config{Reflection: true})
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := rls.RateLimitService_ServiceDesc.ServiceName
	for _, q := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name + ".ShouldRateLimit"}},
	} {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	list, err := stream.Recv()
	if err != nil || !slices.ContainsFunc(list.GetListServicesResponse().GetService(), func(s *reflectionpb.ServiceResponse) bool { return s.Name == name }) {
		t.Errorf("have services %v, %v", list, err)
	}
	if file, err := stream.Recv(); err != nil || len(file.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("have file %v, %v", file, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestK93StopAnswersWhatIsInFlight(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, conn := start(t, Config{Decide: func(context.Context, enforce.Request, *enforce.Decision) error {
		close(entered)
		<-release
		return nil
	}})
	answered := make(chan error, 1)
	go func() {
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "d"})
		answered <- err
	}()
	<-entered
	stopped := make(chan struct{})
	go func() { s.Stop(context.Background()); close(stopped) }()
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("in flight at stop: %v", err)
	}
	<-stopped
}

func TestStopCutsWhatTakesTooLong(t *testing.T) {
	entered := make(chan struct{})
	s, conn := start(t, Config{Decide: func(ctx context.Context, _ enforce.Request, _ *enforce.Decision) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}})
	answered := make(chan error, 1)
	go func() {
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), &rls.RateLimitRequest{Domain: "d"})
		answered <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(ctx)
	if err := <-answered; err == nil {
		t.Error("want an error for a request that was cut")
	}
}

func TestJSONMapping(t *testing.T) {
	s := New(Config{Decide: func(_ context.Context, r enforce.Request, d *enforce.Decision) error {
		if r.Descriptors[0].Entries[0].Value == "bad" {
			return enforce.ErrNoConfig
		}
		*d = enforce.Decision{Over: true, Statuses: []enforce.Status{{Over: true, Rule: &rules.Rule{}, Limit: limit(1, time.Second)}}}
		return nil
	}})
	reply, over, err := s.JSON(t.Context(), []byte(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"1"}]}]}`))
	var m rls.RateLimitResponse
	if err != nil || !over || protojson.Unmarshal(reply, &m) != nil || m.OverallCode != rls.RateLimitResponse_OVER_LIMIT {
		t.Errorf("have %s, %v, %v", reply, over, err)
	}
	for _, bad := range []string{"", "{", `{"domian":"api"}`, `[]`} {
		if _, _, err := s.JSON(t.Context(), []byte(bad)); !errors.Is(err, ErrBadMessage) {
			t.Errorf("%q: want ErrBadMessage, have %v", bad, err)
		}
	}
	if _, _, err := s.JSON(t.Context(), []byte(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"bad"}]}]}`)); !errors.Is(err, enforce.ErrNoConfig) {
		t.Errorf("want ErrNoConfig, have %v", err)
	}
	s.Stop(t.Context())
}
