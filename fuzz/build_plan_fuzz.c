// Plans of clients: one that is read is written as a plan that is read alike, and its steps apply.
#include "types/build_plan.h"

#include <stdlib.h>

#include "fuzz.h"
#include "types/build_state.h"

static void plan_write(const struct build_plan *plan, struct buf *out)
{
	struct json_out json = json_to(out);

	json_begin(&json, '{');
	build_plan_write(&json, plan);
	json_end(&json, '}');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	auto_build_plan plan = {0}, again = {0};
	auto_buf text = BUF_INIT(8 << 20);
	auto_build_state state = {0};
	auto_json json = NULL;
	auto_json same = NULL;
	auto_err err = json_read((struct str){(const char *)bytes, len}, &json);

	if (err || json_type(json) != JSON_OBJECT)
		return 0;
	err = build_plan_read(json, &plan);
	if (err)
		return 0;
	MUST(plan.count && plan.count <= BUILD_STAGES_MAX && plan.steps <= BUILD_STEPS_MAX);
	MUST(build_plan_needs(&plan, plan.count - 1));
	for (size_t i = 0; i < plan.count; i++) {
		MUST(plan.stages[i].base != BUILD_FROM_STAGE || plan.stages[i].from_at < i);
		for (size_t k = 0; k < plan.stages[i].count; k++) {
			const struct build_step *step = &plan.stages[i].steps[k];

			if (step->kind != BUILD_RUN && step->kind != BUILD_COPY &&
			    step->kind != BUILD_ADD)
				err_free(build_state_apply(&state, &plan, step));
		}
	}
	plan_write(&plan, &text);
	MUST(buf_ok(&text));
	err = json_read(buf_view(&text), &same);
	if (err) // as of bytes that are no UTF-8
		return 0;
	err = build_plan_read(same, &again);
	MUST(err || again.count == plan.count);
	return 0;
}
