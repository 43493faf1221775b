// Package buckettest has the cases that every implementation of a region's
// buckets must get right, as little plays on one bucket with a clock that the
// play sets: the reference in memory, and the scripts on a real Redis.
//
// Each play is named after its case (K12 and so on), the report of somebody who
// runs a rate limiter, and asserts the right value of that report.
package buckettest
