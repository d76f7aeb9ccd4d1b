# Words that the running supervisor knows: pools, queues, options.
_taskvisor_values() {
    local kind='' before=${words[CURRENT-1]} known
    local -a given=(${${words[2,CURRENT-1]}:#-*})
    case $before in
        (-q|--queue) kind=queues ;;
        (--state) kind=states ;;
        (--class) kind=classes ;;
        (-*) ;;
        (*) case "$given" in
            (recycle|scale|pause|resume|'why pool') kind=pools ;;
            ('why slot') kind=slots ;;
            (put|'queue pause'|'queue resume'|'queue stats'|'queue forget'*) kind=queues ;;
            ('option get'|'option set'|'option unset') kind=options ;;
            ('recur show'|'recur run'|'recur pause'*|'recur resume'*|'recur remove'*) kind=recurring ;;
        esac ;;
    esac
    [[ -n $kind && ${words[CURRENT]} != -* ]] || return
    # Several states stand with commas between them.
    [[ $kind == states ]] && compset -P '*,'
    known=(${(f)"$(${words[1]} values $kind 2>/dev/null)"})
    compadd -a known
}
functions[_taskvisor_grammar]=$functions[_taskvisor]
_taskvisor() {
    _taskvisor_values || _taskvisor_grammar "$@"
}
