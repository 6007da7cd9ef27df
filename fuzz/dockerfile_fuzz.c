// Dockerfiles of strangers: one that is read is a plan whose JSON is read as the same plan, and its
// words can be expanded.
#include "types/dockerfile.h"

#include <stdlib.h>

#include "fuzz.h"
#include "types/build_state.h"

static void plan_text(const struct build_plan *plan, struct buf *out)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	build_plan_write(&json, plan);
	json_end(&json, '}');
}

static void plan_apply(const struct build_plan *plan)
{
	auto_build_state state = {0};

	for (size_t i = 0; i < plan->count; i++)
		for (size_t k = 0; k < plan->stages[i].count; k++) {
			const struct build_step *step = &plan->stages[i].steps[k];

			// CMD [] and ENTRYPOINT [] have no words.
			MUST(step->count || step->kind == BUILD_CMD ||
			     step->kind == BUILD_ENTRYPOINT);
			MUST(!step->count || (step->words && !step->words[step->count]));
			bool copies = step->kind == BUILD_COPY || step->kind == BUILD_ADD;

			MUST(!copies || step->count + step->file_count >= 2);
			if (step->kind != BUILD_RUN && !copies)
				err_free(build_state_apply(&state, plan, step));
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_build_plan plan = {0}, again = {0};
	auto_buf text = BUF_INIT(8 << 20), same = BUF_INIT(8 << 20);
	auto_err err = dockerfile_read((struct str){(const char *)bytes, len}, &plan);
	auto_json json = NULL;

	if (err)
		return 0;
	MUST(plan.count && plan.escape);
	plan_text(&plan, &text);
	MUST(buf_ok(&text));
	err = json_read(buf_view(&text), &json);
	if (err) // bytes that are no UTF-8 are replaced, so two names may become one
		return 0;
	err = build_plan_read(json, &again);
	if (!err) {
		plan_text(&again, &same);
		MUST(again.count == plan.count);
	}
	plan_apply(&plan);
	return 0;
}
