// A template as the API shows it.
#pragma once

#include "codec/json.h"
#include "manager/templates.h"

// Its fields, as members of an object that is being written.
void template_put(struct json_out *out, const struct template *template);
