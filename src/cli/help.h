// Help texts and man page from the table of verbs. Knows no verb by name.
#pragma once

#include "base/buf.h"
#include "cli/call.h"

void help_overview(const struct grammar *grammar, struct buf *out);
void help_group(const struct grammar *grammar, const char *group, struct buf *out); // "template"
void help_verb(const struct grammar *grammar, const struct verb *verb, struct buf *out);
void help_man(const struct grammar *grammar, struct buf *out); // roff, section 1
