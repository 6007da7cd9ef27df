// What the copy steps of a build copy from, as tars in files without a name: paths of another
// sandbox, files of a step itself, archives that are unpacked. All of it waits.
#pragma once

#include "box/files.h"
#include "manager/build_copy.h"
#include "manager/table.h"

void build_archive_done(struct build_archive *archive);
#define auto_build_archive on_exit_call(build_archive_done) struct build_archive

// An fd that `out` has is written; else a file without a name. `source` is a path from the root of
// the sandbox, or a pattern. A link that it names is followed inside of that root. INVALID
// no_source; TOO_LARGE archive_too_large; EXHAUSTED quota.
fallible build_source_pack(struct manager *manager, const struct who *who, const struct files *from,
			   const char *source, struct build_archive *out);
// A file at `path`, which is no path of the context.
fallible build_source_file(struct manager *manager, const char *path, struct str content,
			   struct build_archive *out);
fallible build_source_link(struct manager *manager, const char *path, const char *target,
			   struct build_archive *out);
#define BUILD_OWN_FILES ".cove-files/" // begins such a path
// The files of an archive of any form, `size` bytes of `fd` from `at` on: the warden's jail unpacks
// it, as a template of the name `name` that is removed again. INVALID bad_archive; TOO_LARGE.
fallible build_source_unpack(struct manager *manager, const struct who *who, const char *name,
			     const struct build_found *found, int fd, struct build_archive *out);
// A file of so many zeros.
fallible build_source_empty(struct manager *manager, uint64_t bytes, int *out);
// A file without a name, in the directory of builds.
fallible build_source_spool(struct manager *manager, int *out);
