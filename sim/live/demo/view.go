package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
)

// refresh is how often the view is drawn anew.
const refresh = 200 * time.Millisecond

// screen is the model of the live view. It holds the last frame and draws it.
type screen struct {
	camera *camera
	frame  frame
	quit   func() // ends the demo; the view ends when the demo has
	width  int
}

type (
	tickMsg struct{}
	endMsg  struct{}
)

func tick() tea.Cmd { return tea.Tick(refresh, func(time.Time) tea.Msg { return tickMsg{} }) }

func (s screen) Init() tea.Cmd { return tick() }

func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		s.frame = s.camera.take()
		return s, tick()
	case endMsg:
		s.frame = s.camera.take()
		return s, tea.Quit
	case tea.WindowSizeMsg:
		s.width = msg.Width
	case tea.KeyPressMsg:
		if k := msg.String(); k == "ctrl+c" || k == "q" {
			s.quit()
		}
	}
	return s, nil
}

func (s screen) View() tea.View { return tea.NewView(s.frame.draw(s.width)) }

// view shows the live view until ctx ends; quit is called when a key asks for
// the end.
func view(ctx context.Context, in io.Reader, out io.Writer, c *camera, quit func()) error {
	p := tea.NewProgram(screen{camera: c, frame: c.take(), quit: quit},
		tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, func() { p.Send(endMsg{}) })
	defer stop()
	if _, err := p.Run(); err != nil {
		return fmt.Errorf("show the live view: %w", err)
	}
	return nil
}

// draw renders a frame: regions, the whole, events.
func (f frame) draw(width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  limit %.0f/s, burst %d   %s of %s   %s, term %d\n\n", bold.Render("quorate live"),
		f.limit.Rate.PerSecond(), f.limit.Burst.Floor(), clock(f.elapsed), clock(f.duration), f.leader(), f.sight.Term)
	fmt.Fprintln(&b, faint.Render("region    demand/s   lease/s  admitted/s  denied/s  failed/s"))
	for _, r := range append(f.rows, f.total) {
		note := ""
		switch {
		case r.cut:
			note = bad.Render("cut off")
		case r.standing:
			note = faint.Render("standing share")
		}
		fmt.Fprintf(&b, "%-8s %9.0f %9.0f %11.0f %9.0f %9.0f  %s\n", r.name, r.demand, r.lease, r.admitted, r.denied, r.failed, note)
	}
	space := min(max(width-40, 10), 60)
	limit := f.limit.Rate.PerSecond()
	fmt.Fprintf(&b, "\nadmitted  %s %.0f/s of %.0f/s\n", bar(space, f.total.admitted/limit), f.total.admitted, limit)
	left := float64(f.headroom()) / float64(max(1, f.limit.Burst))
	fmt.Fprintf(&b, "headroom  %s %d tokens to the Bound\n", bar(space, left), f.headroom().Floor())
	fmt.Fprintf(&b, "so far    %d admitted, %.1f %% of ideal\n\n", f.tally.Counts.Admitted.Floor(), 100*f.tally.Utilization())
	const most = 8
	for _, e := range f.events[max(0, len(f.events)-most):] {
		fmt.Fprintf(&b, "%s  %s\n", clock(e.At), e.Text)
	}
	fmt.Fprintln(&b, faint.Render("q ends it and prints what was measured"))
	return b.String()
}

// bar draws a part of one, from 0 to 1, in width characters.
func bar(width int, part float64) string {
	n := int(math.Round(min(max(part, 0), 1) * float64(width)))
	return good.Render(strings.Repeat("█", n)) + faint.Render(strings.Repeat("░", width-n))
}
