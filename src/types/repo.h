// Allowed sources of a repository, the name of its directory, and its URL without secrets.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define REPO_URL_MAX 2048

// INVALID bad_git_url unless it is a plain URL (https, http, ssh, git, file), host:path of ssh, or
// a path. URLs that would start a helper of git, or be read as an option, are refused.
fallible repo_check(struct str url);
// A branch or tag; INVALID bad_field.
fallible repo_check_branch(struct str name);
// The last part of the path without ".git"; "repository" if empty.
struct str repo_name(struct str url);
// `text` with credentials between http(s):// and @, and values of secret query parameters,
// replaced.
void repo_redact(struct buf *out, struct str text);
