#include "manager/port_scan.h"

#include "tap.h"

static struct buf told;

static void tell(void *arg, uint16_t port, bool opened)
{
	(void)arg;
	buf_fmt(&told, "%c%u ", opened ? '+' : '-', port);
}

TEST(compares, "ports that are in one list only are reported, in order")
{
	static const uint16_t none[1], was[] = {22, 80, 443}, now[] = {80, 81, 65535};

	told = BUF_INIT(256);
	port_scan_compare(was, 3, now, 3, tell, NULL);
	CHECK_STR(told.at, "-22 +81 -443 +65535 ");
	buf_clear(&told);
	port_scan_compare(was, 3, was, 3, tell, NULL);
	port_scan_compare(none, 0, none, 0, tell, NULL);
	CHECK(told.len == 0);
	port_scan_compare(none, 0, was, 3, tell, NULL);
	port_scan_compare(was, 3, none, 0, tell, NULL);
	CHECK_STR(told.at, "+22 +80 +443 -22 -80 -443 ");
	buf_done(&told);
}
