/* A library with the interface of Ascend's DCMI (dcmi_interface_api.h), for tests of the ctypes path.
 *
 * It has FAKE_DCMI_CARDS cards (2) with two chips each and a controller behind them. The chip with the number n of
 * processes draws 100 + 50 n watts. Cards are listed backwards, so that only the library's own numbers give the order.
 * FAKE_DCMI_INIT is what `dcmi_init` returns; FAKE_DCMI_OLD: a driver without the counters of packets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct chip { char type[32], name[32], version[32]; unsigned cores; };
struct pcie { unsigned vendor, subvendor, device, subdevice; int domain; unsigned bus, slot, function; unsigned char reserve[32]; };
struct hbm { unsigned long long size; unsigned clock; unsigned long long used; int temperature; unsigned bandwidth; };
struct ecc { int on; unsigned single, twice, all_single, all_twice, single_pages, twice_pages; };
/* 48 counters: bytes sent are the 22nd, bad packets received the 27th, packets sent again the 43rd, … */
struct packets { unsigned long long counts[48]; long seconds, microseconds; unsigned char reserved[64]; };

enum { OK = 0, INVALID = -8001, NOT_SUPPORTED = -8255 };

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
static int cards(void) { return setting("FAKE_DCMI_CARDS", 2); }
static int bad(int card, int chip) { return card < 0 || card >= cards() || chip < 0 || chip > 1; }
static int number(int card, int chip) { return 2 * card + chip; }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int dcmi_init(void) { return setting("FAKE_DCMI_INIT", OK); }
int dcmi_get_driver_version(char *text, unsigned length) { snprintf(text, length, "25.2.0"); return OK; }
int dcmi_get_card_list(int *count, int *list, int length) {
    *count = cards();
    for (int i = 0; i < *count && i < length; i++) list[i] = *count - 1 - i;
    return OK;
}
int dcmi_get_device_id_in_card(int card, int *most, int *controller, int *cpu) {
    if (bad(card, 0)) return INVALID;
    *most = 2; *controller = 2; *cpu = -1;
    return OK;
}
int dcmi_get_device_logic_id(int *found, int card, int chip) { if (bad(card, chip)) return INVALID; *found = number(card, chip); return OK; }
int dcmi_get_device_chip_info(int card, int chip, struct chip *found) {
    if (bad(card, chip)) return INVALID;
    memset(found, 0, sizeof *found);
    strcpy(found->type, "Ascend"); strcpy(found->name, "910B3"); strcpy(found->version, "V1");
    found->cores = 20;
    return OK;
}
int dcmi_get_device_pcie_info_v2(int card, int chip, struct pcie *found) {
    if (bad(card, chip)) return INVALID;
    memset(found, 0, sizeof *found);
    found->bus = 0x61 + number(card, chip);
    return OK;
}
int dcmi_get_device_power_info(int card, int chip, int *tenths) { if (bad(card, chip)) return INVALID; *tenths = 1000 + 500 * number(card, chip); return OK; }
int dcmi_get_device_temperature(int card, int chip, int *degrees) { if (bad(card, chip)) return INVALID; *degrees = 40 + number(card, chip); return OK; }
int dcmi_get_device_health(int card, int chip, unsigned *health) { if (bad(card, chip)) return INVALID; *health = number(card, chip) == 3 ? 2 : 0; return OK; }
int dcmi_get_device_errorcode_v2(int card, int chip, int *count, unsigned *codes, unsigned length) {
    if (bad(card, chip) || length < 1) return INVALID;
    *count = number(card, chip) == 3;
    if (*count) codes[0] = 0x80E01801;
    return OK;
}
int dcmi_get_device_utilization_rate(int card, int chip, int kind, unsigned *percent) {
    if (bad(card, chip)) return INVALID;
    if (kind == 2) *percent = 90 + number(card, chip);
    else if (kind == 10) *percent = 35;
    else return NOT_SUPPORTED;
    return OK;
}
int dcmi_get_device_frequency(int card, int chip, int kind, unsigned *mhz) {
    if (bad(card, chip)) return INVALID;
    if (kind == 7) *mhz = 1800;
    else if (kind == 6) *mhz = 1600;
    else return NOT_SUPPORTED;
    return OK;
}
int dcmi_get_device_hbm_info(int card, int chip, struct hbm *found) {
    if (bad(card, chip)) return INVALID;
    found->size = 65536; found->clock = 1600; found->used = 1024 * (number(card, chip) + 1); found->temperature = 51; found->bandwidth = 35;
    return OK;
}
int dcmi_get_device_ecc_info(int card, int chip, int kind, struct ecc *found) {
    if (bad(card, chip)) return INVALID;
    if (kind != 2) return NOT_SUPPORTED;
    memset(found, 0, sizeof *found);
    found->on = 1; found->all_single = 5; found->all_twice = number(card, chip) == 2; found->single_pages = 1; found->twice_pages = 2;
    return OK;
}
int dcmi_get_netdev_pkt_stats_info(int card, int chip, int port, struct packets *found) {
    if (bad(card, chip) || port != 0) return INVALID;
    if (setting("FAKE_DCMI_OLD", 0)) return NOT_SUPPORTED;
    memset(found, 0, sizeof *found);
    found->counts[21] = (unsigned long long)(now() * 3e9); /* mac_tx_total_oct_num */
    found->counts[25] = (unsigned long long)(now() * 2e9); /* mac_rx_total_oct_num */
    found->counts[26] = 4;                                 /* mac_rx_bad_pkt_num */
    found->counts[42] = 7;                                 /* roce_new_pkt_rty_num */
    return OK;
}
