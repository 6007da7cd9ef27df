// The rows of LIMITS_FIELDS as data, for encoders and decoders that treat all limits alike. struct
// limits has one uint64_t a row, in the order of the rows.
#include "types/limits.h"

#include <assert.h>

#define F(name, key, unit, least, most, stored, ...) {key, stored, unit, least, most},
const struct limit_row limit_rows[LIMIT_COUNT] = {LIMITS_FIELDS(F)};
#undef F

static_assert(sizeof(struct limits) == LIMIT_COUNT * sizeof(uint64_t), "one field a row");

uint64_t *limit_at(struct limits *limits, enum limit limit)
{
	return (uint64_t *)(void *)limits + limit;
}

uint64_t limit_of(const struct limits *limits, enum limit limit)
{
	return ((const uint64_t *)(const void *)limits)[limit];
}

uint64_t limits_kept_output(const struct limits *limits)
{
	uint64_t part = limits->disk / 4;

	if (limits->kept_output)
		return limits->kept_output;
	return part > limits->output ? part : limits->output;
}
