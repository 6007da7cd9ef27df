// Any document as a message, and each of its parts as a value. What has a plain form is good JSON,
// and wrapped and made plain again it is the same.
#include "codec/rpc.h"

#include "fuzz.h"

static void try_plain(const struct json *json)
{
	auto_buf plain = BUF_INIT(1 << 24), wrapped = BUF_INIT(1 << 25), again = BUF_INIT(1 << 24);
	auto_buf put = BUF_INIT(1 << 25);
	struct json_out out = json_to(&plain), back = json_to(&again), tree = json_to(&put);
	struct rpc_wrapper wrapper = {0};
	size_t step = json_count(json) % 7 + 1;
	auto_json first = NULL;
	auto_json second = NULL;
	auto_err err = rpc_plain(json, &out);
	auto_err bad = NULL;
	auto_err deep = NULL;
	auto_err other = NULL;

	if (err || !buf_ok(&plain)) {
		MUST(!err || err_kind(err) == ERR_INVALID);
		return;
	}
	bad = json_read(buf_view(&plain), &first);
	MUST(!bad);
	for (size_t at = 0; at < plain.len; at += step)
		rpc_wrap(
			&wrapper, &wrapped,
			(struct str){plain.at + at, plain.len - at < step ? plain.len - at : step});
	rpc_put(&tree, first);
	MUST(str_eq(buf_view(&wrapped), buf_view(&put)));
	// Doubled arrays may be deeper than a document may be.
	deep = json_read(buf_view(&wrapped), &second);
	if (deep)
		return;
	other = rpc_plain(second, &back);
	MUST(!other && str_eq(buf_view(&plain), buf_view(&again)));
}

static void try_value(const struct json *json, int depth)
{
	struct rpc_value value;
	auto_err err = rpc_value(json, &value);
	auto_buf bytes = BUF_INIT(1 << 20);

	if (err) {
		MUST(err_kind(err) == ERR_INVALID);
		return;
	}
	if (value.type == RPC_BYTES)
		rpc_bytes(value.text, &bytes);
	MUST(value.type != RPC_PIPELINE || !value.path || json_type(value.path) == JSON_ARRAY);
	MUST(!value.args || json_type(value.args) == JSON_ARRAY);
	MUST(value.id >= -RPC_ID_MAX && value.id <= RPC_ID_MAX);
	for (size_t i = 0; depth < 8 && value.args && i < json_count(value.args); i++)
		try_value(json_at(value.args, i), depth + 1);
}

static void try_bytes(struct str text)
{
	auto_buf coded = BUF_INIT(1 << 24), back = BUF_INIT(1 << 24);
	struct json_out out = json_to(&coded);
	struct str base64;

	rpc_put_bytes(&out, text.at, text.len);
	base64 = buf_view(&coded); // ["bytes","…"]
	base64 = (struct str){base64.at + 10, base64.len - 12};
	MUST(rpc_bytes(base64, &back) && str_eq(buf_view(&back), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	struct rpc_message message;
	auto_json root = NULL;
	auto_err err = json_read(text, &root);
	auto_err bad = NULL;

	try_bytes(text);
	if (err)
		return 0;
	try_plain(root);
	bad = rpc_read(root, &message);
	MUST(!bad || err_kind(bad) == ERR_INVALID);
	if (!bad && message.value)
		try_value(message.value, 0);
	return 0;
}
