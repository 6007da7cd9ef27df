// Orders from a daemon that may have been taken over, and answers: the first byte chooses. What
// decodes obeys the laws and encodes to the same bytes.
#include "protocol/order.h"

#include "fuzz.h"

static uint8_t room[ORDER_SIZE_MAX];

// What nobody is making any more may be forgotten by its own kind of name.
static bool is_unfinished(const struct order *order)
{
	size_t head = strlen(ORDER_UNFINISHED);

	return order->kind == ORDER_FORGET && !strncmp(order->name, ORDER_UNFINISHED, head) &&
	       strspn(order->name + head, "0123456789abcdef") == strlen(order->name) - head;
}

static void try_order(const uint8_t *bytes, size_t len)
{
	struct order order = {.id = 77};
	auto_err err = order_decode(bytes, len, &order);

	if (err) {
		MUST(strcmp(err_reason(err), "bad_order") == 0 && order.id == 77);
		return;
	}
	MUST(order.box[0] == 0 || id_is_box(str_of(order.box)));
	MUST(order.name[0] == 0 || id_is_template(str_of(order.name)) || is_unfinished(&order));
	MUST(!strpbrk(order.host, "/. \n"));
	MUST(order_is_trace(str_of(order.trace)));
	MUST(order_encode(&order, room, sizeof(room)) == len && memcmp(room, bytes, len) == 0);
	MUST(order_encode(&order, room, len - 1) == 0);
}

static void try_answer(const uint8_t *bytes, size_t len)
{
	struct answer answer = {.id = 77};
	auto_err err = answer_decode(bytes, len, &answer);
	auto_err rebuilt = NULL;

	if (err) {
		MUST(strcmp(err_reason(err), "bad_order") == 0 && answer.id == 77);
		return;
	}
	MUST(answer.template_count <= ORDER_LIST_PAGE);
	if (answer.kind == ANSWER_REFUSED) {
		rebuilt = err_from(answer.error, answer.reason, answer.message, answer.hint);
		MUST(err_http(rebuilt) >= 400 && strcmp(err_reason(rebuilt), answer.reason) == 0);
	}
	MUST(answer_encode(&answer, room, sizeof(room)) == len && memcmp(room, bytes, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	if (len == 0)
		return 0;
	if (bytes[0] % 2)
		try_answer(bytes + 1, len - 1);
	else
		try_order(bytes + 1, len - 1);
	return 0;
}
