// Parsers of the porcelain output of git. No I/O.
#pragma once

#include "codec/json.h"

// `git status --porcelain=v2 --branch -z` as Daytona's status. False: not such a text.
bool git_output_status(struct str text, struct json_out *out);
// Names, one a line, as {"branches": […]}.
void git_output_branches(struct str text, struct json_out *out);
// `git remote -v`, as {"remotes": [{name, url}]}.
void git_output_remotes(struct str text, struct json_out *out);
// `git log -z` with hash, author, e-mail, time and message, each ended by a NUL, as a list.
void git_output_history(struct str text, struct json_out *out);
