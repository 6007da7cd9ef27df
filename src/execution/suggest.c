// Suggested limits: quantiles of what completed executions of the same tenant, profile and
// repository used, with room above, between the smallest limit that a request may ask for and the
// profile's ceiling. A repository with too few is judged by all of the profile. They are applied by
// nobody but the client, as `limits` of its next request.
#include "types/suggest.h"

#include "base/mem.h"
#include "execution/private.h"
#include "store/executions.h"

#define SAMPLES_MAX 1000
#define STEP_MS 1000
#define LEAST_WALL_MS 10000 // wall time passes while a busy host runs others
#define STEP_MEMORY (16 * LIMITS_MIB)

struct suggestion {
	const char *key;
	size_t use;   // offset in struct store_execution_use
	size_t limit; // in struct profile_limits
	uint64_t unit, step, least;
};
static const struct suggestion suggestions[] = {
	{"memoryMB", offsetof(struct store_execution_use, memory),
	 offsetof(struct profile_limits, memory), LIMITS_MIB, STEP_MEMORY, STEP_MEMORY},
	{"cpuTimeMs", offsetof(struct store_execution_use, cpu_ms),
	 offsetof(struct profile_limits, cpu_time_ms), 1, STEP_MS, STEP_MS},
	{"wallTimeMs", offsetof(struct store_execution_use, run_ms),
	 offsetof(struct profile_limits, wall_time_ms), 1, STEP_MS, LEAST_WALL_MS},
};
#define SUGGESTIONS (sizeof(suggestions) / sizeof(*suggestions))

static uint64_t suggest_member(const void *of, size_t offset)
{
	return *(const uint64_t *)((const char *)of + offset);
}

static void suggest_put_use(struct json_out *out, const struct suggestion *row,
			    const struct suggest_use *use, const struct profile *profile)
{
	json_put_begin(out, row->key, '{');
	json_put_int(out, "p50", (int64_t)(use->p50 / row->unit));
	json_put_int(out, "p95", (int64_t)(use->p95 / row->unit));
	json_put_int(out, "p99", (int64_t)(use->p99 / row->unit));
	json_put_int(out, "peak", (int64_t)(use->peak / row->unit));
	if (profile)
		json_put_int(out, "profile",
			     (int64_t)(suggest_member(&profile->limits, row->limit) / row->unit));
	json_end(out, '}');
}

static uint64_t suggest_ceiling(const struct profile *profile, const struct suggestion *row)
{
	uint64_t max = profile ? suggest_member(&profile->max, row->limit) : 0;

	if (!profile || profile->open)
		return 0;
	return max ? max : suggest_member(&profile->limits, row->limit);
}

static void suggest_put(struct json_out *out, const struct store_execution_use *uses, size_t count,
			const struct profile *profile)
{
	auto_free uint64_t *samples = mem_new((count + 1) * sizeof(*samples));
	uint64_t limits[SUGGESTIONS];

	json_put_begin(out, "limits", '{');
	for (size_t i = 0; count && i < SUGGESTIONS; i++) {
		struct suggest_use use;

		for (size_t j = 0; j < count; j++)
			samples[j] = suggest_member(&uses[j], suggestions[i].use);
		use = suggest_look(samples, count);
		limits[i] = suggest_limit(&use, suggestions[i].step, suggestions[i].least,
					  suggest_ceiling(profile, &suggestions[i]));
		suggest_put_use(out, &suggestions[i], &use, profile);
	}
	json_end(out, '}');
	json_key(out, "suggested");
	if (count < SUGGEST_SAMPLES_MIN) {
		json_add_null(out);
		return;
	}
	json_begin(out, '{');
	for (size_t i = 0; i < SUGGESTIONS; i++)
		json_put_int(out, suggestions[i].key, (int64_t)(limits[i] / suggestions[i].unit));
	json_end(out, '}');
}

struct suggest_of {
	const char *tenant, *profile, *repository; // repository "": of any
};

// Of the repository; if those are too few, of the profile.
static fallible suggest_find(struct executions *executions, struct suggest_of *of,
			     struct arena *arena, struct store_execution_use **out,
			     size_t *out_count)
{
	struct store *store = executions->options.store;

	if (of->repository[0]) {
		TRY(store_executions_use(store, of->tenant, of->profile, of->repository,
					 SAMPLES_MAX, arena, out, out_count));
		if (*out_count >= SUGGEST_SAMPLES_MIN)
			return OK;
		of->repository = "";
	}
	return store_executions_use(store, of->tenant, of->profile, "", SAMPLES_MAX, arena, out,
				    out_count);
}

fallible executions_suggest(struct executions *executions, const struct who *who, struct str id,
			    struct json_out *out)
{
	auto_buf record = BUF_INIT(4u << 20);
	struct json_out record_out = json_to(&record);
	struct store_execution_use *uses;
	auto_arena arena = arena_new();
	struct suggest_of asked;
	struct execution_place place;
	const struct json *label;
	struct str name = {0};
	auto_json json = NULL;
	size_t count = 0;

	TRY(executions_place(executions, who, id, &place));
	if (place.proc)
		proc_unref(place.proc);
	TRY(executions_write(executions, who, id, &record_out));
	TRY(json_read(buf_view(&record), &json), "read the record of an execution");
	TRY(json_str(json_get(json, "profile"), "profile", &name));
	label = json_get(json_get(json, "labels"), EXECUTION_REPOSITORY);
	asked.tenant = place.tenant;
	asked.profile = arena_dup(arena, name.at, name.len);
	asked.repository = label ? arena_dup(arena, json_chars(label).at, json_chars(label).len)
				 : "";
	TRY(suggest_find(executions, &asked, arena, &uses, &count));
	json_begin(out, '{');
	json_put_str(out, "profile", name);
	json_put_text(out, "repository", asked.repository[0] ? asked.repository : NULL);
	json_put_int(out, "executions", (int64_t)count);
	suggest_put(out, uses, count, profiles_find(&executions->profiles, name));
	json_end(out, '}');
	return OK;
}
