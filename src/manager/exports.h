// Templates as OCI image layouts. The warden writes each layer to an unlinked file of ours; the
// documents that name them are made here.
#pragma once

#include "manager/templates.h"

struct export_file {
	char path[96]; // in the layout; a directory ends with a slash
	int fd;	       // from its beginning; -1: `text`
	char *text;
	uint64_t size;
};

struct export
{
	struct export_file *files;
	size_t count;
};
void export_free(struct export *export); // takes NULL
static inline void auto_export_(struct export **export)
{
	export_free(*export);
}
#define auto_export on_exit_call(auto_export_) struct export *

struct export_request {
	struct str name;
	bool squash; // everything in one layer
	bool zstd;   // layers are packed with zstd, not gzip
};

// The same template gives the same bytes. Waits for as long as the packing takes. NOT_FOUND
// no_template; INVALID not_layered, bad_archive; TOO_LARGE archive_too_large; NO_SPACE; EXHAUSTED
// too_many_imports.
fallible exports_make(struct manager *manager, const struct who *who,
		      const struct export_request *request, struct export **out);
