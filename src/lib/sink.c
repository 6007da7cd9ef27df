// Passes output to the caller's callbacks or collects it. Callbacks run on the caller's stack and
// may make other calls; a nonzero result cancels the running call.
#include "lib/sink.h"

#include "base/mem.h"
#include "lib/fields.h"

fallible sink_put(const struct cove_sink *sink, bool is_stderr, struct str bytes)
{
	cove_output_fn *fn = is_stderr ? sink->on_stderr : sink->on_stdout;

	if (bytes.len && fn && fn(sink->arg, bytes.at, bytes.len))
		return err_new(CANCELLED, "not_wanted", "the caller wants no more output");
	return OK;
}

static int sink_add(struct buf *to, const void *bytes, size_t len)
{
	buf_add(to, bytes, len);
	return !buf_ok(to);
}

static int add_out(void *arg, const void *bytes, size_t len)
{
	return sink_add(&((struct sink_both *)arg)->out, bytes, len);
}

static int add_err(void *arg, const void *bytes, size_t len)
{
	return sink_add(&((struct sink_both *)arg)->err, bytes, len);
}

struct cove_sink sink_to_both(struct sink_both *both)
{
	return (struct cove_sink){.on_stdout = add_out, .on_stderr = add_err, .arg = both};
}

static char *text_of(struct buf *from, size_t *out_len)
{
	*out_len = from->len;
	return from->at ? buf_take(from) : mem_str("");
}

void sink_output(struct sink_both *both, const struct cove_result *result, struct cove_output *out)
{
	out->result = *result;
	out->out = text_of(&both->out, &out->out_len);
	out->err = text_of(&both->err, &out->err_len);
}

void sink_both_done(struct sink_both *both)
{
	buf_done(&both->out);
	buf_done(&both->err);
}

void cove_output_free(struct cove_output *output)
{
	free(output->out);
	free(output->err);
	*output = (struct cove_output){0};
}

fallible sink_answer(const struct json *answer, struct cove_output *out)
{
	struct sink_both both = SINK_BOTH;
	struct cove_result result;
	struct err *err = fields_bytes(answer, "stdout", &both.out);

	if (!err)
		err = fields_bytes(answer, "stderr", &both.err);
	fields_result(answer, &result);
	if (!err)
		sink_output(&both, &result, out);
	sink_both_done(&both);
	return err;
}
