// Writes the usage of a sandbox or of the host now, as an object.
#pragma once

#include "codec/json.h"
#include "gateway/gateway.h"
#include "manager/sampler.h"

// Rates are since `was`, the sample that the same reader got before (time_ms 0: none); it becomes
// the present one.
void stats_put_box(struct json_out *out, const struct entry *entry, struct sample *was);
// The sums that `who` sees; of the host for the operator alone.
void stats_put_host(struct json_out *out, const struct gateway *gateway, const struct who *who);
