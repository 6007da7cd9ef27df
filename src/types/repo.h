// Where a repository may come from, what its directory is called, and how it is spoken of without
// its secrets.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REPO_URL_MAX 2048

// INVALID bad_git_url: nothing but a plain URL (https, http, ssh, git, file), host:path as ssh has
// it, or a path. What would start a helper of git, or be read as an option, is refused.
fallible repo_check(struct str url);
// A branch or tag; INVALID bad_field.
fallible repo_check_branch(struct str name);
// The last part of the path without ".git"; "repository" when there is none.
struct str repo_name(struct str url);
// `text` with what stands between http(s):// and @, and the values of secret query parameters, made
// unreadable.
void repo_redact(struct buf *out, struct str text);
