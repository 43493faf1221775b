// Package netproxy is a piece of wide-area network on one machine: a TCP proxy
// that delays, cuts and breaks connections the way a long line does.
//
//	client ──► Link (listens) ──delay──► target
//	       ◄──────────────────delay──
//
// Every chunk of bytes arrives one one-way delay after it was sent, drawn
// between Min and Max from a seeded source, and never before the chunk sent
// earlier: TCP keeps order. A connection reaches the target after one delay of
// its own, as its first packet would.
//
// While a direction is cut nothing passes and nobody is told: connections stay
// open, and so do new ones, which the machine's kernel accepts. What was sent is
// held, as TCP's retransmission holds it, and arrives after Heal: old messages do
// turn up late. Reset is the other way a line fails: connections break at once.
//
// A line may also lose packets, which TCP sends again some time later, lose a
// connection now and then, and let so many bytes a second through at most: SetLoss
// and Throttle, each direction by itself. All that is drawn repeats for a seed.
//
// Buffers are bounded: a sender that is further ahead than Buffer bytes per
// direction is slowed down as by a full TCP window.
package netproxy
