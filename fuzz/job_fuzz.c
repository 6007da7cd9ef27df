// A request for an execution: every path of a file stays below /workspace, the context is a slice
// of the body, and what is accepted once is accepted again.
#include "types/job.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_profiles profiles = {0};
	auto_job job = {0}, again = {0};
	auto_err err = job_read(text, &job);
	auto_err config = profiles_read(text, &profiles);
	auto_err second = err ? OK : job_read(text, &again);

	MUST(!second);
	for (size_t i = 0; !config && i < profiles.count; i++)
		MUST(profiles_find(&profiles, str_of(profiles.at[i].name)));
	if (err)
		return 0;
	MUST(!job.context.at ||
	     (job.context.at >= text.at && job.context.at + job.context.len <= text.at + text.len));
	for (size_t i = 0; i < job.file_count; i++) {
		MUST(!strncmp(job.files[i].path, "/workspace/", 11));
		MUST(!strstr(job.files[i].path, "/../") &&
		     !str_ends(str_of(job.files[i].path), "/.."));
		MUST(job.files[i].mode <= 0777);
	}
	return 0;
}
